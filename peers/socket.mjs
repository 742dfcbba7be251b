// A client on Node's own WebSocket, without any SDK: both eras against one server.
// Usage: node socket.mjs ws://host:port/ws
// Prints one JSON object per check, like the clients beside it.

const url = process.argv[2];
let failed = 0;

function tell(check, ok, more = {}) {
  if (!ok) failed += 1;
  console.log(JSON.stringify({ check, ok, ...more }));
}

function open(protocols) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, protocols);
    const waiting = new Map();
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    };
    const say = (message) => socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
    const call = (id, method, params) =>
      new Promise((reply) => {
        waiting.set(id, reply);
        say({ id, method, params });
      });
    const close = () =>
      new Promise((closed) => {
        socket.onclose = (event) => closed(event.code);
        socket.close(1000, "done");
      });
    socket.onopen = () => resolve({ socket, say, call, close });
    socket.onerror = () => reject(new Error("no WebSocket"));
  });
}

async function legacy() {
  const { socket, say, call, close } = await open("mcp");
  tell("subprotocol", socket.protocol === "mcp", { protocol: socket.protocol });
  const opened = await call(1, "initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "node", version: process.version },
  });
  tell("initialize", opened.result?.protocolVersion === "2025-11-25");
  say({ method: "notifications/initialized" });
  const replies = await Promise.all(
    [2, 3, 4].map((id) => call(id, "tools/call", { name: "echo", arguments: { message: `m${id}` } })),
  );
  tell("legacy calls", replies.every((reply) => reply.result?.content?.[0]?.text === `m${reply.id}`));
  const large = "x".repeat(5 << 20);
  const echoed = await call(5, "tools/call", { name: "echo", arguments: { message: large } });
  tell("large", echoed.result?.content?.[0]?.text?.length === large.length);
  tell("close", (await close()) === 1000);
}

async function modern() {
  const { call, close } = await open();
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "node", version: process.version },
  };
  const found = await call("d", "server/discover", { _meta });
  tell("discover", Array.isArray(found.result?.supportedVersions));
  const reply = await call("c", "tools/call", { name: "add", arguments: { a: 2, b: 3 }, _meta });
  tell("modern call", reply.result?.resultType === "complete");
  await close();
}

async function refused() {
  const outcome = await open("soap").then(
    () => "opened",
    () => "refused",
  );
  tell("foreign subprotocol", outcome === "refused");
}

await legacy();
await modern();
await refused();
console.log(JSON.stringify({ check: "end", failed }));
process.exit(failed === 0 ? 0 : 1);
