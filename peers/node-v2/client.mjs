// Client on the TypeScript SDK v2, which knows both eras.
//
// `modern` pins 2026-07-28 (the SDK sends server/discover and takes no other
// answer); `auto` lets the SDK probe a second copy of the server, then decide.

import { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { Notes, Skip, answers, parseArgs, reach, run } from '../script.mjs';

const MODES = { auto: 'auto', legacy: 'legacy', modern: { pin: '2026-07-28' } };

class Peer {
  notes = new Notes();

  constructor({ era, command }) {
    this.transport = reach(command, { StdioClientTransport, SSEClientTransport, StreamableHTTPClientTransport });
    // The SDK keeps a handler that was there before it connects, and calls both.
    this.transport.onmessage = message => this.onWire?.(message);
    this.client = new Client(
      { name: 'peer-node-v2', version: '1.0.0' },
      {
        capabilities: { elicitation: {}, sampling: {}, roots: {} },
        versionNegotiation: { mode: MODES[era] },
      },
    );
    const { client, notes } = this;
    client.setRequestHandler('elicitation/create', request => answers.elicit(request.params));
    client.setRequestHandler('sampling/createMessage', () => answers.sample());
    client.setRequestHandler('roots/list', () => answers.roots());
    client.setNotificationHandler('notifications/message', note => notes.arrived('log', note));
    client.setNotificationHandler('notifications/tools/list_changed', note => notes.arrived('tools', note));
    client.setNotificationHandler('notifications/resources/updated', note => notes.arrived('updated', note));
  }

  get modern() {
    return this.client.getProtocolEra() === 'modern';
  }

  async connect() {
    await this.client.connect(this.transport);
    return {
      version: this.client.getNegotiatedProtocolVersion(),
      era: this.client.getProtocolEra(),
      server: this.client.getServerVersion()?.name,
    };
  }

  async listTools() {
    // Without a cursor the SDK walks all pages itself and tells no count of them.
    const { tools } = await this.client.listTools();
    return { items: tools };
  }

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, options);
  }

  async callLogged(name, args) {
    if (this.modern) {
      await this.client.callTool({ name, arguments: args, _meta: { [LOG_LEVEL_META_KEY]: 'debug' } });
      return 'in the call';
    }
    const offered = this.client.getServerCapabilities()?.logging !== undefined;
    if (offered) await this.client.setLoggingLevel('debug');
    await this.call(name, args);
    return offered ? 'set' : 'not offered';
  }

  async listen() {
    if (!this.modern) return async () => {};
    const subscription = await this.client.listen({ toolsListChanged: true });
    return () => subscription.close();
  }

  async follow(uri) {
    if (this.modern) {
      const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
      return () => subscription.close();
    }
    await this.client.subscribeResource({ uri });
    return () => this.client.unsubscribeResource({ uri });
  }

  ping() {
    if (this.modern) throw new Skip('sdk: ping is not part of 2026-07-28');
    return this.client.ping();
  }

  close() {
    return this.client.close();
  }
}

const args = parseArgs(['auto', 'legacy', 'modern']);
await run(new Peer(args), args);
