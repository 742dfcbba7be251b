// The script that every Node client runs against a server, check by check.
//
// A client hands in a `peer`: its SDK behind a handful of verbs. Everything
// that says what a right answer is stands here, so that all Node clients ask
// the same of a server. Twin of `script.py`; the checks and their order match.

// How long a check may take, unless the client is told otherwise.
const PATIENCE_MS = 10_000;
const LARGE_BYTES = 1 << 20;

// What a gateway puts before the names of the server that is meant, for tools and prompts; nothing without one.
const PREFIX = process.env.PEER_PREFIX ?? '';

// Thrown by a peer for what its SDK cannot do in the negotiated era.
export class Skip extends Error {}

// Reads `[--era legacy|modern|auto] [--without check,...] [--patience ms] -- command args...`.
export function parseArgs(eras) {
  const args = process.argv.slice(2);
  const split = args.indexOf('--');
  const command = split < 0 ? [] : args.slice(split + 1);
  const options = split < 0 ? [] : args.slice(0, split);
  const after = name => (options.includes(name) ? options[options.indexOf(name) + 1] : undefined);
  const era = after('--era') ?? eras[0];
  const without = after('--without')?.split(',') ?? [];
  const patience = Number(after('--patience') ?? PATIENCE_MS);
  if (command.length === 0 || !eras.includes(era)) {
    const options = `[--era ${eras.join('|')}] [--without check,...] [--patience ms]`;
    console.error(`usage: client.mjs ${options} -- command [args...] | url`);
    process.exit(2);
  }
  return { era, command, without, patience };
}

// A command is started; an address is reached, by WebSocket or old HTTP+SSE if it says so.
export function reach([first, ...rest], transports) {
  if (/^wss?:/.test(first)) return new transports.WebSocketClientTransport(new URL(first));
  if (!/^https?:/.test(first)) {
    return new transports.StdioClientTransport({ command: first, args: rest, env: process.env });
  }
  const url = new URL(first);
  if (url.pathname.endsWith('/sse')) return new transports.SSEClientTransport(url);
  return new transports.StreamableHTTPClientTransport(url);
}

// What the server sends unasked, kept so that a check may wait for it.
export class Notes {
  #waiting = new Map();

  arrived(kind, note) {
    this.#waiting.get(kind)?.(note);
    this.#waiting.delete(kind);
  }

  next(kind) {
    return new Promise(resolve => this.#waiting.set(kind, resolve));
  }
}

// What the client answers when the server asks it something.
export const answers = {
  elicit(params) {
    const fields = params.requestedSchema?.properties ?? {};
    const field = ['answer', 'name'].find(name => name in fields);
    expect(field, 'elicitation form has no field `answer`');
    return { action: 'accept', content: { [field]: 'blue' } };
  },
  sample() {
    return { role: 'assistant', model: 'peer', content: { type: 'text', text: 'sampled' } };
  },
  roots() {
    return { roots: [{ uri: 'file:///workspace', name: 'workspace' }] };
  },
};

export async function run(peer, { without, patience }) {
  const tally = { passed: 0, failed: 0, skipped: 0 };
  for (const [name, body] of Object.entries(checks)) {
    if (without.includes(name)) continue;
    const report = await attempt(body, peer, patience);
    tally[report.ok === null ? 'skipped' : report.ok ? 'passed' : 'failed'] += 1;
    print({ check: name, ...report });
    // Without a connection every other check would only repeat this failure.
    if (name === 'connect' && !report.ok) break;
  }
  print({ check: 'end', ...tally });
  await Promise.race([peer.close(), after(PATIENCE_MS)]).catch(() => {});
  process.exit(tally.failed === 0 ? 0 : 1);
}

// What servers call things.
const DEMO = {
  tools: ['echo', 'add', 'slow'],
  structured: { call: ['add', { a: 2, b: 3 }], member: ['sum', 5] },
  fail: { call: ['fail', { message: 'out of luck' }], says: 'out of luck' },
  slow: { call: (steps, delay_ms) => ['slow', { steps, delay_ms }], says: 'done' },
  ask: ['ask', { question: 'favourite colour?' }],
  sample: ['sample', { prompt: 'say something' }],
  roots: ['roots', {}],
  read: { listed: 'demo://clock', template: 'demo://file/{name}', both: ['demo://clock', 'demo://file/readme'] },
  prompt: { name: 'greet', args: { name: 'Ada' }, says: 'Ada' },
  complete: { name: 'greet', argument: { name: 'name', value: 'A' } },
  log: { call: ['note', { level: 'warning', message: 'hi' }], level: 'warning', says: 'hi' },
  changed: ['change', { what: 'tools' }],
  updated: { uri: 'demo://clock', call: ['change', { what: 'demo://clock' }] },
  fault: { uri: 'demo://file/broken', code: 7001, data: { part: 'shaft', tries: 3 } },
};

// The reference server has names of its own, and no tool that changes a list. It logs at random levels.
const DYNAMIC = 'demo://resource/dynamic/text';
const DOCUMENT = 'demo://resource/static/document/architecture.md';
const EVERYTHING = {
  tools: ['echo', 'get-sum', 'trigger-long-running-operation'],
  structured: { call: ['get-structured-content', { location: 'New York' }], member: ['temperature', 33] },
  fail: { call: ['get-resource-reference', { resourceType: 'Text', resourceId: -1 }], says: 'resourceId' },
  slow: {
    call: (steps, delay_ms) => ['trigger-long-running-operation', { steps, duration: (steps * delay_ms) / 1000 }],
    says: 'completed',
  },
  ask: ['trigger-elicitation-request', {}],
  sample: ['trigger-sampling-request', { prompt: 'say something' }],
  roots: ['get-roots-list', {}],
  read: { listed: DOCUMENT, template: `${DYNAMIC}/{resourceId}`, both: [DOCUMENT, `${DYNAMIC}/1`] },
  prompt: { name: 'args-prompt', args: { city: 'Ada' }, says: 'Ada' },
  complete: { name: 'completable-prompt', argument: { name: 'department', value: 'E' } },
  log: { call: ['toggle-simulated-logging', {}], says: '' },
  updated: { uri: DOCUMENT, call: ['toggle-subscriber-updates', {}] },
  fault: { uri: `${DYNAMIC}/0`, code: -32603 },
};

const checks = {
  async connect(peer) {
    const facts = await peer.connect();
    peer.terms = facts.server?.endsWith('everything') ? EVERYTHING : DEMO;
    return facts;
  },

  async list(peer) {
    const { items, pages } = await peer.listTools();
    const names = own(items);
    // A client that opens no session was not told who the server is.
    if (names.includes(EVERYTHING.tools[1])) peer.terms = EVERYTHING;
    for (const name of peer.terms.tools) {
      expect(names.includes(name), `tool ${name} is not listed`);
    }
    expect(new Set(names).size === names.length, 'a tool is listed twice');
    return { count: names.length, pages };
  },

  async call(peer) {
    const result = await called(peer, ['echo', { message: 'hello' }]);
    expect(textOf(result).includes('hello'), `echo answered ${show(result)}`);
  },

  async structured(peer) {
    const { call, member } = peer.terms.structured;
    const result = await called(peer, call);
    expect(result.structuredContent?.[member[0]] === member[1], `${call[0]} answered ${show(result)}`);
    expect(textOf(result).includes(String(member[1])), `${call[0]} has no text beside its structure: ${show(result)}`);
  },

  async tool_error(peer) {
    const { call, says } = peer.terms.fail;
    const result = await called(peer, call);
    expect(result.isError === true, `${call[0]} did not set isError: ${show(result)}`);
    expect(textOf(result).includes(says), `${call[0]} lost its message: ${show(result)}`);
  },

  async unknown_tool(peer) {
    try {
      const result = await called(peer, ['no_such_tool', {}]);
      expect(result.isError === true, `unknown tool answered ${show(result)}`);
      return { as: 'isError' };
    } catch (error) {
      expect(error.code === -32602, `unknown tool failed with ${error.code}: ${error.message}`);
      return { as: 'error', code: error.code };
    }
  },

  async progress(peer) {
    // Judged by what the transport received: both TypeScript SDKs put a note off by one microtask but
    // settle a call at once, so a note that shares a chunk with its result never reaches the callback.
    const sent = [];
    const delivered = [];
    peer.onWire = message => {
      if (message.method === 'notifications/progress') sent.push(message.params.progress);
    };
    const onprogress = note => delivered.push(note.progress);
    const { call, says } = peer.terms.slow;
    const result = await called(peer, call(3, 10), { onprogress });
    peer.onWire = undefined;
    expect(textOf(result).includes(says), `slow answered ${show(result)}`);
    expect(sent.length === 3, `expected 3 progress notes, got ${show(sent)}`);
    expect(sent.every((value, i) => i === 0 || value > sent[i - 1]), `not increasing: ${show(sent)}`);
    expect(delivered.every((value, i) => value === sent[i]), `of ${show(sent)} the SDK delivered ${show(delivered)}`);
    return { progress: sent, delivered: delivered.length };
  },

  async cancel(peer) {
    const abort = new AbortController();
    const options = { onprogress: () => abort.abort('enough'), signal: abort.signal };
    const outcome = await called(peer, peer.terms.slow.call(1000, 20), options).then(
      result => ({ result }),
      error => ({ error }),
    );
    expect(abort.signal.aborted, `slow ended before its first progress note: ${show(outcome)}`);
    expect(outcome.error, `cancelled call still answered ${show(outcome.result)}`);
    const result = await called(peer, ['echo', { message: 'still here' }]);
    expect(textOf(result).includes('still here'), `echo after cancel answered ${show(result)}`);
  },

  async elicit(peer) {
    const result = await called(peer, peer.terms.ask);
    expect(textOf(result).includes('blue'), `ask answered ${show(result)}`);
  },

  async sample(peer) {
    const result = await called(peer, peer.terms.sample);
    expect(textOf(result).includes('sampled'), `sample answered ${show(result)}`);
  },

  async roots(peer) {
    const result = await called(peer, peer.terms.roots);
    expect(textOf(result).includes('file:///workspace'), `roots answered ${show(result)}`);
  },

  async read(peer) {
    const { listed, template, both } = peer.terms.read;
    const uris = (await peer.client.listResources()).resources.map(item => item.uri);
    expect(uris.includes(listed), `${listed} is not among ${show(uris)}`);
    const { resourceTemplates } = await peer.client.listResourceTemplates();
    const templates = resourceTemplates.map(item => item.uriTemplate);
    expect(templates.includes(template), `${template} is not among ${show(templates)}`);
    for (const uri of both) {
      const { contents } = await peer.client.readResource({ uri });
      expect(contents[0]?.uri === uri && contents[0].text, `${uri} read as ${show(contents)}`);
    }
  },

  async prompt(peer) {
    const { name, args, says } = peer.terms.prompt;
    const listed = own((await peer.client.listPrompts()).prompts);
    expect(listed.includes(name), `prompt ${name} is not among ${show(listed)}`);
    const { messages } = await peer.client.getPrompt({ name: PREFIX + name, arguments: args });
    expect(messages.some(message => message.content.text?.includes(says)), `${name} gave ${show(messages)}`);
  },

  async complete(peer) {
    const { name, argument } = peer.terms.complete;
    const ref = { type: 'ref/prompt', name: PREFIX + name };
    const { completion } = await peer.client.complete({ ref, argument });
    expect(completion.values.length >= 1, `no completion for the prefix ${argument.value}`);
    return { values: completion.values };
  },

  async log(peer) {
    const { call, level, says } = peer.terms.log;
    const note = peer.notes.next('log');
    const how = await peer.callLogged(PREFIX + call[0], call[1]);
    const { params } = await note;
    expect(params.level === (level ?? params.level), `log note was ${show(params)}`);
    expect(show(params.data).includes(says), `log note was ${show(params)}`);
    return { level: how };
  },

  async changed(peer) {
    if (!peer.terms.changed) throw new Skip('server: no tool changes its lists');
    if (PREFIX) throw new Skip('gateway: a list is told as changed when it is another, and here none is');
    const close = await peer.listen();
    const note = peer.notes.next('tools');
    await called(peer, peer.terms.changed);
    await note;
    await close();
  },

  async updated(peer) {
    const { uri, call } = peer.terms.updated;
    const close = await peer.follow(uri);
    const note = peer.notes.next('updated');
    await called(peer, call);
    const { params } = await note;
    expect(params.uri === uri, `told of ${params.uri}`);
    await close();
  },

  async fault(peer) {
    const { uri, code, data } = peer.terms.fault;
    const outcome = await peer.client.readResource({ uri }).then(
      result => ({ result }),
      error => ({ error }),
    );
    expect(outcome.error, `${uri} read as ${show(outcome.result)}`);
    expect(outcome.error.code === code, `${uri} failed with ${outcome.error.code}: ${outcome.error.message}`);
    expect(show(outcome.error.data) === show(data), `${uri} failed with data ${show(outcome.error.data)}`);
  },

  async ping(peer) {
    await peer.ping();
  },

  // The last: some SDKs lose their session by it.
  async large(peer) {
    const message = '0123456789abcdef'.repeat(LARGE_BYTES / 16);
    const text = textOf(await called(peer, ['echo', { message }]));
    expect(text.endsWith(message), `of ${message.length} characters ${text.length} came back, or others`);
  },
};

function called(peer, [name, args], options) {
  return peer.call(PREFIX + name, args, options);
}

// The names that are the server's own.
function own(items) {
  const names = items.map(item => item.name).filter(name => name.startsWith(PREFIX));
  return names.map(name => name.slice(PREFIX.length));
}

async function attempt(body, peer, patience) {
  try {
    const facts = await Promise.race([body(peer), after(patience)]);
    return { ok: true, ...facts };
  } catch (error) {
    const why = error?.message ?? String(error);
    return { ok: error instanceof Skip ? null : false, why };
  }
}

function after(ms) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
}

function expect(holds, why) {
  if (!holds) throw new Error(why);
}

function textOf(result) {
  return (result.content ?? []).map(block => block.text ?? '').join('\n');
}

function show(value) {
  return JSON.stringify(value, (_, v) => (v instanceof Error ? v.message : v));
}

function print(report) {
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
