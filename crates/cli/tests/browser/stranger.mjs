// A page that nobody has allowed, and what its browser lets it learn.

const COUNT = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'count',
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
};

const JSON_TYPE = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

const MODERN = { 'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'count' };

const first = (target, good) =>
  new Promise((told) => {
    target.addEventListener(good, () => told('reached'));
    target.addEventListener('error', () => told('error'));
  }).finally(() => target.close());

export default async (server) => {
  const url = `http://${server}/mcp`;
  const body = JSON.stringify(COUNT);
  const tried = (options) => fetch(url, options).then(() => 'reached', (error) => error.name);
  // Such a request is sent without asking, and its answer cannot be read.
  const unasked = await fetch(url, { method: 'POST', mode: 'no-cors', body });
  return {
    legacy: await tried({ method: 'POST', headers: JSON_TYPE, body }),
    modern: await tried({ method: 'POST', headers: { ...JSON_TYPE, ...MODERN }, body }),
    push: await tried({ headers: { Accept: 'text/event-stream' } }),
    end: await tried({ method: 'DELETE', headers: { 'Mcp-Session-Id': 'x' } }),
    unasked: [unasked.type, unasked.status],
    events: await first(new EventSource(`http://${server}/sse`), 'endpoint'),
    socket: await first(new WebSocket(`ws://${server}/ws`, 'mcp'), 'open'),
  };
};
