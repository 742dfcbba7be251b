// Server on the TypeScript SDK v1, which knows the legacy era only.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { McpError, SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const text = value => ({ content: [{ type: 'text', text: value }] });

function addPlainTools(server) {
  server.registerTool('echo', { inputSchema: { message: z.string() } }, ({ message }) => text(message));

  server.registerTool(
    'add',
    { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );

  server.registerTool(
    'slow',
    { inputSchema: { steps: z.number().int(), delay_ms: z.number().int() } },
    async ({ steps, delay_ms }, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (let step = 1; step <= steps; step += 1) {
        await sleep(delay_ms, undefined, { signal: extra.signal }).catch(error => {
          process.stderr.write('cancelled\n');
          throw error;
        });
        if (progressToken !== undefined) {
          const params = { progressToken, progress: step, total: steps };
          await extra.sendNotification({ method: 'notifications/progress', params });
        }
      }
      return text('done');
    },
  );

  server.registerTool('fail', { inputSchema: { message: z.string() } }, ({ message }) => ({
    ...text(message),
    isError: true,
  }));
}

function addAskingTools(server) {
  server.registerTool('ask', { inputSchema: { question: z.string() } }, async ({ question }) => {
    const requestedSchema = {
      type: 'object',
      properties: { answer: { type: 'string' } },
      required: ['answer'],
    };
    const { action, content } = await server.server.elicitInput({ message: question, requestedSchema });
    if (action === 'accept') return text(content.answer);
    return text(action === 'decline' ? 'declined' : 'cancelled');
  });

  server.registerTool('sample', { inputSchema: { prompt: z.string() } }, async ({ prompt }) => {
    const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
    const { content } = await server.server.createMessage({ messages, maxTokens: 100 });
    return text(content.text);
  });

  server.registerTool('roots', {}, async () => {
    const { roots } = await server.server.listRoots();
    return text(roots.map(root => root.uri).join('\n'));
  });
}

function addNotingTools(server) {
  server.registerTool(
    'note',
    { inputSchema: { level: z.string(), message: z.string() } },
    async ({ level, message }) => {
      await server.sendLoggingMessage({ level, logger: 'demo', data: message });
      return text('noted');
    },
  );

  server.registerTool(
    'change',
    { inputSchema: { what: z.string() } },
    async ({ what }) => {
      if (what === 'tools') await server.sendToolListChanged();
      if (what === 'resources') await server.sendResourceListChanged();
      if (what === 'prompts') await server.sendPromptListChanged();
      if (what.includes(':')) await server.server.sendResourceUpdated({ uri: what });
      return text('changed');
    },
  );
}

function addResourcesAndPrompts(server) {
  server.registerResource('clock', 'demo://clock', { mimeType: 'text/plain' }, uri => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: new Date().toISOString() }],
  }));

  server.registerResource(
    'file',
    new ResourceTemplate('demo://file/{name}', { list: undefined }),
    { mimeType: 'text/plain' },
    (uri, { name }) => {
      if (name === 'broken') throw new McpError(7001, 'the file is broken', { part: 'shaft', tries: 3 });
      return { contents: [{ uri: uri.href, mimeType: 'text/plain', text: `file ${name}` }] };
    },
  );

  const NAMES = ['Ada', 'Alan', 'Grace'];
  const name = completable(z.string(), prefix => NAMES.filter(known => known.startsWith(prefix)));
  server.registerPrompt('greet', { argsSchema: { name } }, args => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please greet ${args.name}.` } }],
  }));

  // Whoever is told of a change is told of all: nobody here has so many resources.
  for (const schema of [SubscribeRequestSchema, UnsubscribeRequestSchema]) {
    server.server.setRequestHandler(schema, () => ({}));
  }
}

// A server for one session.
function make() {
  const server = new McpServer(
    { name: 'peer-node-v1', version: '1.0.0' },
    { capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } } },
  );
  addPlainTools(server);
  addAskingTools(server);
  addNotingTools(server);
  addResourcesAndPrompts(server);
  return server;
}

// Over what the first argument says. Where it listens goes to stdout.
const listen = (path, handle) => {
  const http = createServer(handle).listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${http.address().port}${path}\n`);
  });
};
const sessions = new Map();
switch (process.argv[2]) {
  case '--http':
    listen('/mcp', async (request, response) => {
      const known = request.headers['mcp-session-id'];
      let transport = sessions.get(known);
      if (known !== undefined && transport === undefined) return response.writeHead(404).end();
      if (transport === undefined) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: id => sessions.set(id, transport),
          onsessionclosed: id => sessions.delete(id),
        });
        await make().connect(transport);
      }
      await transport.handleRequest(request, response);
    });
    break;
  case '--sse':
    listen('/sse', async (request, response) => {
      const url = new URL(request.url, 'http://localhost');
      const events = sessions.get(url.searchParams.get('sessionId'));
      if (request.method === 'GET' && url.pathname === '/sse') {
        const opened = new SSEServerTransport('/messages', response);
        sessions.set(opened.sessionId, opened);
        response.on('close', () => sessions.delete(opened.sessionId));
        await make().connect(opened);
      } else if (request.method === 'POST' && events !== undefined) {
        await events.handlePostMessage(request, response);
      } else {
        response.writeHead(404).end();
      }
    });
    break;
  default:
    await make().connect(new StdioServerTransport());
}
