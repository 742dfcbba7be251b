// Starts the reference server as the others are started: over stdio, or with `--http` or `--sse` on a free port, which
// goes to stdout. It does not say itself when it is told to cancel, so what its SDK is told goes to stderr. With
// `--without-ids` after that its events cannot be resumed.

import { Server } from 'node:net';

import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { Protocol } from '@modelcontextprotocol/sdk/shared/protocol.js';

const WAYS = { '--http': ['streamableHttp', '/mcp'], '--sse': ['sse', '/sse'] };
const [way, path] = WAYS[process.argv[2]] ?? ['stdio'];

const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  this.once('listening', () => process.stdout.write(`http://127.0.0.1:${this.address().port}${path}\n`));
  return listen.apply(this, args);
};

const { _oncancel: cancelled } = Protocol.prototype;
Protocol.prototype._oncancel = function (note) {
  process.stderr.write('cancelled\n');
  return cancelled.call(this, note);
};

if (process.argv[3] === '--without-ids') {
  const { start } = WebStandardStreamableHTTPServerTransport.prototype;
  WebStandardStreamableHTTPServerTransport.prototype.start = function () {
    this._eventStore = undefined;
    return start.call(this);
  };
}

process.argv[2] = way;
process.env.PORT = '0';
await import('@modelcontextprotocol/server-everything/dist/index.js');
