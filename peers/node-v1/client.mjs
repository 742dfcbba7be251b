// Client on the TypeScript SDK v1, which knows the legacy era only.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { Notes, answers, parseArgs, reach, run } from '../script.mjs';

const TRANSPORTS = {
  StdioClientTransport,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  WebSocketClientTransport,
};

class Peer {
  notes = new Notes();
  client = new Client(
    { name: 'peer-node-v1', version: '1.0.0' },
    { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
  );

  constructor(target) {
    this.transport = reach(target, TRANSPORTS);
    // The SDK keeps a handler that was there before it connects, and calls both.
    this.transport.onmessage = message => this.onWire?.(message);
    // The SDK tells the negotiated revision to transports that ask for it, and to no one else.
    const told = this.transport.setProtocolVersion?.bind(this.transport);
    this.transport.setProtocolVersion = version => {
      this.version = version;
      told?.(version);
    };
    const { client, notes } = this;
    client.setRequestHandler(ElicitRequestSchema, request => answers.elicit(request.params));
    client.setRequestHandler(CreateMessageRequestSchema, () => answers.sample());
    client.setRequestHandler(ListRootsRequestSchema, () => answers.roots());
    client.setNotificationHandler(LoggingMessageNotificationSchema, note => notes.arrived('log', note));
    client.setNotificationHandler(ToolListChangedNotificationSchema, note => notes.arrived('tools', note));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, note => notes.arrived('updated', note));
  }

  async connect() {
    await this.client.connect(this.transport);
    return { version: this.version, era: 'legacy', server: this.client.getServerVersion()?.name };
  }

  async listTools() {
    const items = [];
    let pages = 0;
    let cursor;
    do {
      const page = await this.client.listTools({ cursor });
      items.push(...page.tools);
      cursor = page.nextCursor;
      pages += 1;
    } while (cursor !== undefined);
    return { items, pages };
  }

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, undefined, options);
  }

  async callLogged(name, args) {
    const offered = this.client.getServerCapabilities()?.logging !== undefined;
    if (offered) await this.client.setLoggingLevel('debug');
    await this.call(name, args);
    return offered ? 'set' : 'not offered';
  }

  async listen() {
    return async () => {};
  }

  async follow(uri) {
    await this.client.subscribeResource({ uri });
    return () => this.client.unsubscribeResource({ uri });
  }

  ping() {
    return this.client.ping();
  }

  close() {
    return this.client.close();
  }
}

const args = parseArgs(['legacy']);
await run(new Peer(args.command), args);
