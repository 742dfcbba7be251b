// A page with the TypeScript SDK v2.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const MODES = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' };

async function talk(server, mode) {
  const client = new Client({ name: 'page', version: '1' }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(new URL(`http://${server}/mcp`));
  await client.connect(transport);
  const { tools } = await client.listTools();
  const added = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
  const progress = [];
  const slow = { name: 'slow', arguments: { steps: 2, delay_ms: 1 } };
  await client.callTool(slow, { onprogress: (step) => progress.push(step.progress) });
  const version = client.getNegotiatedProtocolVersion();
  await transport.terminateSession?.();
  await client.close();
  return { version, listed: tools.length > 0, sum: added.structuredContent.sum, progress };
}

export default async (server) => {
  const told = {};
  for (const [name, mode] of Object.entries(MODES)) {
    told[name] = await talk(server, mode);
  }
  return told;
};
