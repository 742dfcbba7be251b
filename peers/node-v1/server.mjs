// Server on the TypeScript SDK v1, which knows the legacy era only.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const server = new McpServer(
  { name: 'peer-node-v1', version: '1.0.0' },
  { capabilities: { logging: {} } },
);
const text = value => ({ content: [{ type: 'text', text: value }] });

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
  { inputSchema: { what: z.enum(['tools', 'resources', 'prompts']) } },
  ({ what }) => {
    if (what === 'tools') server.sendToolListChanged();
    if (what === 'resources') server.sendResourceListChanged();
    if (what === 'prompts') server.sendPromptListChanged();
    return text('changed');
  },
);

server.registerResource('clock', 'demo://clock', { mimeType: 'text/plain' }, uri => ({
  contents: [{ uri: uri.href, mimeType: 'text/plain', text: new Date().toISOString() }],
}));

server.registerResource(
  'file',
  new ResourceTemplate('demo://file/{name}', { list: undefined }),
  { mimeType: 'text/plain' },
  (uri, { name }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `file ${name}` }] }),
);

const NAMES = ['Ada', 'Alan', 'Grace'];
const name = completable(z.string(), prefix => NAMES.filter(known => known.startsWith(prefix)));
server.registerPrompt('greet', { argsSchema: { name } }, args => ({
  messages: [{ role: 'user', content: { type: 'text', text: `Please greet ${args.name}.` } }],
}));

// One session per process, over what the first argument says. Where it listens goes to stdout.
const listen = (path, handle) => {
  const http = createServer(handle).listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${http.address().port}${path}\n`);
  });
};
let events;
switch (process.argv[2]) {
  case '--http': {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
    await server.connect(transport);
    listen('/mcp', (request, response) => transport.handleRequest(request, response));
    break;
  }
  case '--sse':
    listen('/sse', async (request, response) => {
      if (request.method === 'GET' && request.url === '/sse') {
        events = new SSEServerTransport('/messages', response);
        await server.connect(events);
      } else if (request.method === 'POST' && request.url.startsWith('/messages')) {
        await events.handlePostMessage(request, response);
      } else {
        response.writeHead(404).end();
      }
    });
    break;
  default:
    await server.connect(new StdioServerTransport());
}
