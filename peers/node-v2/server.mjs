// Server on the TypeScript SDK v2, which serves both eras from one factory.
//
// Tools that ask the client something return `inputRequired(...)`: in the
// modern era the client retries with its answers, in the legacy era the SDK
// makes the calls itself and runs the handler again.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  McpServer,
  ProtocolError,
  ResourceTemplate,
  WebStandardStreamableHTTPServerTransport,
  completable,
  createMcpHandler,
  inputRequired,
  inputResponse,
  isLegacyRequest,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = value => ({ content: [{ type: 'text', text: value }] });

function addPlainTools(server) {
  const message = z.object({ message: z.string() });
  server.registerTool('echo', { inputSchema: message }, args => text(args.message));

  server.registerTool('fail', { inputSchema: message }, args => ({ ...text(args.message), isError: true }));

  server.registerTool(
    'add',
    {
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );

  server.registerTool(
    'slow',
    { inputSchema: z.object({ steps: z.number().int(), delay_ms: z.number().int() }) },
    slow,
  );
}

async function slow({ steps, delay_ms }, { mcpReq }) {
  const progressToken = mcpReq._meta?.progressToken;
  for (let step = 1; step <= steps; step += 1) {
    await sleep(delay_ms, undefined, { signal: mcpReq.signal }).catch(error => {
      process.stderr.write('cancelled\n');
      throw error;
    });
    if (progressToken !== undefined) {
      const params = { progressToken, progress: step, total: steps };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
  }
  return text('done');
}

function addAskingTools(server) {
  server.registerTool('ask', { inputSchema: z.object({ question: z.string() }) }, ({ question }, { mcpReq }) => {
    const got = inputResponse(mcpReq.inputResponses, 'answer');
    if (got.kind === 'elicit') {
      if (got.action === 'accept') return text(String(got.content?.answer));
      return text(got.action === 'decline' ? 'declined' : 'cancelled');
    }
    const requestedSchema = z.object({ answer: z.string() });
    return inputRequired({ inputRequests: { answer: inputRequired.elicit({ message: question, requestedSchema }) } });
  });

  server.registerTool('sample', { inputSchema: z.object({ prompt: z.string() }) }, ({ prompt }, { mcpReq }) => {
    const got = inputResponse(mcpReq.inputResponses, 'sample');
    if (got.kind === 'sampling') return text(got.result.content.text);
    const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
    return inputRequired({ inputRequests: { sample: inputRequired.createMessage({ messages, maxTokens: 100 }) } });
  });

  server.registerTool('roots', { inputSchema: z.object({}) }, (_, { mcpReq }) => {
    const got = inputResponse(mcpReq.inputResponses, 'roots');
    if (got.kind === 'roots') return text(got.roots.map(root => root.uri).join('\n'));
    return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
  });
}

// `listeners` are told of changes where the server of a call is gone with it: over HTTP, in the modern era.
function addNotingTools(server, listeners) {
  server.registerTool(
    'note',
    { inputSchema: z.object({ level: z.string(), message: z.string() }) },
    async ({ level, message }, { mcpReq }) => {
      await mcpReq.log(level, message, 'demo');
      return text('noted');
    },
  );

  server.registerTool(
    'change',
    { inputSchema: z.object({ what: z.string() }) },
    async ({ what }) => {
      if (what === 'tools') await (listeners ? listeners.toolsChanged() : server.sendToolListChanged());
      if (what === 'resources') await (listeners ? listeners.resourcesChanged() : server.sendResourceListChanged());
      if (what === 'prompts') await (listeners ? listeners.promptsChanged() : server.sendPromptListChanged());
      if (what.includes(':')) await (listeners ? listeners.resourceUpdated(what) : server.server.sendResourceUpdated({ uri: what }));
      return text('changed');
    },
  );
}

function addResourcesAndPrompts(server) {
  const plain = { mimeType: 'text/plain' };
  server.registerResource('clock', 'demo://clock', plain, uri => ({
    contents: [{ uri: uri.href, ...plain, text: new Date().toISOString() }],
  }));

  const template = new ResourceTemplate('demo://file/{name}', { list: undefined });
  server.registerResource('file', template, plain, (uri, { name }) => {
    if (name === 'broken') throw new ProtocolError(7001, 'the file is broken', { part: 'shaft', tries: 3 });
    return { contents: [{ uri: uri.href, ...plain, text: `file ${name}` }] };
  });
  for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
    server.server.setRequestHandler(method, () => ({}));
  }

  const names = ['Ada', 'Alan', 'Grace'];
  const name = completable(z.string(), prefix => names.filter(known => known.startsWith(prefix)));
  server.registerPrompt('greet', { argsSchema: z.object({ name }) }, args => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please greet ${args.name}.` } }],
  }));
}

function make(listeners) {
  const capabilities = { logging: {}, resources: { subscribe: true, listChanged: true } };
  const server = new McpServer({ name: 'peer-node-v2', version: '1.0.0' }, { capabilities });
  addPlainTools(server);
  addAskingTools(server);
  addNotingTools(server, listeners);
  addResourcesAndPrompts(server);
  return server;
}

// Over stdio, or with `--http` over HTTP: where it listens goes to stdout. With `--stateless` after that legacy clients
// have no sessions, as the SDK serves them by itself.
function serve() {
  const [way, how] = process.argv.slice(2);
  if (way !== '--http') return serveStdio(() => make());
  const legacy = how === '--stateless' ? 'stateless' : 'reject';
  const handler = createMcpHandler(() => make(handler.notify), { legacy });
  const fetch = legacy === 'stateless' ? handler.fetch : byEra(handler.fetch);
  const http = createServer((request, response) => answer(fetch, request, response));
  http.listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${http.address().port}/mcp\n`);
  });
}

async function answer(fetch, request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
  const { method, headers } = request;
  const url = `http://${headers.host}${request.url}`;
  const answered = await fetch(new Request(url, { method, headers, body, signal: gone.signal }));
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  if (answered.body === null) return response.end();
  // A stream that has nothing to say yet is open all the same.
  response.flushHeaders();
  await pipeline(Readable.fromWeb(answered.body), response).catch(() => {});
}

// What is legacy goes to the server of its session, all else to the handler.
function byEra(modern) {
  return async request => ((await isLegacyRequest(request)) ? inSession(request) : modern(request));
}

const sessions = new Map();

async function inSession(request) {
  const known = request.headers.get('mcp-session-id');
  if (known !== null) return sessions.get(known)?.handleRequest(request) ?? new Response(null, { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => sessions.set(id, transport),
    onsessionclosed: id => sessions.delete(id),
  });
  await make().connect(transport);
  return transport.handleRequest(request);
}

serve();
