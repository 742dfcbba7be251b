// A page that speaks MCP with nothing but what every browser has.

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

const LEGACY = '2025-11-25';

const INITIALIZE = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'page', version: '1' } },
};

async function post(url, message, headers = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  const text = await answer.text();
  const type = answer.headers.get('content-type');
  // Events without data carry ids alone.
  const data = text.split('\n').filter((line) => line.startsWith('data: {'));
  const bodies = type === 'text/event-stream' ? data.map((line) => line.slice(6)) : [text];
  const messages = bodies.filter((body) => body).map((body) => JSON.parse(body));
  return { status: answer.status, session: answer.headers.get('mcp-session-id'), type, messages };
}

const kinds = ({ messages }) => messages.map((message) => message.method ?? 'reply');

async function legacy(url) {
  const opened = await post(url, INITIALIZE);
  const headers = { 'Mcp-Session-Id': opened.session, 'Mcp-Protocol-Version': LEGACY };
  const noted = await post(url, { method: 'notifications/initialized' }, headers);
  const params = { name: 'slow', arguments: { steps: 2, delay_ms: 1 }, _meta: { progressToken: 1 } };
  const slow = { id: 2, method: 'tools/call', params };
  const streamed = await post(url, slow, headers);
  const leaving = new AbortController();
  const accept = { ...headers, Accept: 'text/event-stream' };
  const pushed = await fetch(url, { headers: accept, signal: leaving.signal });
  leaving.abort();
  const ended = await fetch(url, { method: 'DELETE', headers });
  const gone = await post(url, { id: 3, method: 'tools/list' }, headers);
  return {
    opened: [opened.status, opened.messages[0].result.serverInfo.name],
    session: opened.session?.length > 0,
    noted: noted.status,
    streamed: [streamed.type, kinds(streamed)],
    pushed: [pushed.status, pushed.headers.get('content-type')],
    ended: ended.status,
    gone: gone.status,
  };
}

async function modern(url) {
  const call = (named, name, args, token) => {
    const meta = token ? { ...META, progressToken: token } : META;
    const message = { id: 1, method: 'tools/call', params: { name, arguments: args, _meta: meta } };
    const headers = { 'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': named };
    return post(url, message, headers);
  };
  const sum = await call('add', 'add', { a: 2, b: 3 });
  const differs = await call('echo', 'add', { a: 2, b: 3 });
  const streamed = await call('slow', 'slow', { steps: 2, delay_ms: 1 }, 1);
  return {
    sum: [sum.status, sum.messages[0].result.structuredContent.sum],
    differs: [differs.status, differs.messages[0].error.code],
    streamed: [streamed.type, kinds(streamed).at(-1)],
  };
}

function events(server) {
  const source = new EventSource(`http://${server}/sse`);
  return new Promise((told) => {
    source.addEventListener('endpoint', () => told('reached'));
    source.onerror = () => told('error');
  }).finally(() => source.close());
}

function socket(server) {
  const link = new WebSocket(`ws://${server}/ws`, 'mcp');
  return new Promise((told) => {
    link.onopen = () => link.send(JSON.stringify({ jsonrpc: '2.0', ...INITIALIZE }));
    link.onmessage = ({ data }) => told(JSON.parse(data).result ? 'reached' : data);
    link.onerror = () => told('error');
  }).finally(() => link.close());
}

export default async (server) => {
  const url = `http://${server}/mcp`;
  return {
    legacy: await legacy(url),
    modern: await modern(url),
    events: await events(server),
    socket: await socket(server),
  };
};
