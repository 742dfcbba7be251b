// A page that needs a token.

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

export default async (server) => {
  const call = (headers) =>
    fetch(`http://${server}/mcp`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'Mcp-Protocol-Version': '2026-07-28',
        'Mcp-Method': 'tools/call',
        'Mcp-Name': 'add',
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'add', arguments: { a: 2, b: 3 }, _meta: META },
      }),
    });
  const challenge = ({ status, headers }) => [status, headers.get('www-authenticate')?.split(' ')[0]];
  const good = await call({ Authorization: 'Bearer a token of some length' });
  return {
    without: challenge(await call({})),
    wrong: challenge(await call({ Authorization: 'Bearer another of some length' })),
    with: [good.status, (await good.json()).result?.structuredContent.sum],
  };
};
