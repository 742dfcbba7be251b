// Calls a tool as a task with the TypeScript SDK v1, which has the tasks of 2025-11-25: one line of JSON for whatever comes.
//
//   node tasks.mjs TOOL ARGUMENTS -- COMMAND|ADDRESS ...

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';

import { reach } from '../script.mjs';

const [tool, given, , ...target] = process.argv.slice(2);
const client = new Client({ name: 'peer-node-v1', version: '1.0.0' });
const say = line => console.log(JSON.stringify(line));

await client.connect(reach(target, { StdioClientTransport, StreamableHTTPClientTransport }));
say({ type: 'capability', tasks: client.getServerCapabilities()?.tasks });
await client.listTools();
const { tasks } = client.experimental;
const call = { name: tool, arguments: JSON.parse(given) };
let id;
for await (const message of tasks.callToolStream(call, CallToolResultSchema, { task: { ttl: 60000 } })) {
  id ??= message.task?.taskId;
  say(message.error ? { ...message, error: String(message.error) } : message);
}
say({ type: 'listed', ids: (await tasks.listTasks()).tasks.map(task => task.taskId), id });
await client.close();
