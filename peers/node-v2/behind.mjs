// Client on the TypeScript SDK v2 for servers behind a proxy: what a proxy may do to a call, check by check.
//
// `behind.mjs --era legacy|modern -- url check...`. The server has the tools `step`, `go`, `quiet`, `hold`, `wait` and
// `gone`; see the test that starts it. Nothing here waits for a time: what is held back never comes.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { parseArgs } from '../script.mjs';

const MODES = { legacy: 'legacy', modern: { pin: '2026-07-28' } };

const { era, command: [url, ...wanted] } = parseArgs(['legacy', 'modern']);
const client = new Client({ name: 'peer-node-v2', version: '1.0.0' }, { versionNegotiation: { mode: MODES[era] } });

const said = result => result.content?.[0]?.text;
const call = (name, options) => client.callTool({ name, arguments: {} }, { timeout: 100_000, ...options });

function expect(found, right) {
  if (found !== right) throw new Error(`expected ${right}, got ${JSON.stringify(found)}`);
}

const checks = {
  // The call ends only after its progress was seen.
  async step() {
    let go;
    const result = await call('step', { onprogress: () => (go ??= call('go')) });
    await go;
    expect(said(result), 'stepped');
  },

  // Longer than the proxy bears silence.
  async quiet() {
    expect(said(await call('quiet')), 'patience');
  },

  // The server tells itself that the handler is gone.
  async cancel() {
    const abort = new AbortController();
    const options = { onprogress: () => abort.abort('enough'), signal: abort.signal };
    const outcome = await call('wait', options).then(() => 'answered', () => 'cancelled');
    expect(outcome, 'cancelled');
    expect(said(await call('gone')), 'gone');
  },

  // Cut by the proxy on the way.
  async hold() {
    expect(said(await call('hold', { onprogress: () => {} })), 'held');
  },
};

const tally = { passed: 0, failed: 0 };
async function run(check, body) {
  const report = await body().then(() => ({ ok: true }), error => ({ ok: false, why: error.message }));
  tally[report.ok ? 'passed' : 'failed'] += 1;
  process.stdout.write(`${JSON.stringify({ check, ...report })}\n`);
  return report.ok;
}

const transport = new StreamableHTTPClientTransport(new URL(url));
if (await run('connect', () => client.connect(transport))) {
  for (const name of wanted) await run(name, checks[name]);
}
process.stdout.write(`${JSON.stringify({ check: 'end', ...tally })}\n`);
await client.close().catch(() => {});
process.exit(tally.failed === 0 ? 0 : 1);
