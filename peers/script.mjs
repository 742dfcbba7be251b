// The script that every Node client runs against a server, check by check.
//
// A client hands in a `peer`: its SDK behind a handful of verbs. Everything
// that says what a right answer is stands here, so that all Node clients ask
// the same of a server. Twin of `script.py`; the checks and their order match.

const CHECK_TIMEOUT_MS = 10_000;

// Thrown by a peer for what its SDK cannot do in the negotiated era.
export class Skip extends Error {}

// Reads `[--era legacy|modern|auto] -- command args...`.
export function parseArgs(eras) {
  const args = process.argv.slice(2);
  const split = args.indexOf('--');
  const command = split < 0 ? [] : args.slice(split + 1);
  const era = args[0] === '--era' ? args[1] : eras[0];
  if (command.length === 0 || !eras.includes(era)) {
    console.error(`usage: client.mjs [--era ${eras.join('|')}] -- command [args...] | url`);
    process.exit(2);
  }
  return { era, command };
}

// A command is started; an address is reached, by old HTTP+SSE if its path says so.
export function reach([first, ...rest], transports) {
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
    expect(params.requestedSchema?.properties?.answer, 'elicitation form has no field `answer`');
    return { action: 'accept', content: { answer: 'blue' } };
  },
  sample() {
    return { role: 'assistant', model: 'peer', content: { type: 'text', text: 'sampled' } };
  },
  roots() {
    return { roots: [{ uri: 'file:///workspace', name: 'workspace' }] };
  },
};

export async function run(peer) {
  const tally = { passed: 0, failed: 0, skipped: 0 };
  for (const [name, body] of Object.entries(checks)) {
    const report = await attempt(body, peer);
    tally[report.ok === null ? 'skipped' : report.ok ? 'passed' : 'failed'] += 1;
    print({ check: name, ...report });
    // Without a connection every other check would only repeat this failure.
    if (name === 'connect' && !report.ok) break;
  }
  print({ check: 'end', ...tally });
  await Promise.race([peer.close(), after(CHECK_TIMEOUT_MS)]).catch(() => {});
  process.exit(tally.failed === 0 ? 0 : 1);
}

const checks = {
  async connect(peer) {
    return peer.connect();
  },

  async list(peer) {
    const { items, pages } = await peer.listTools();
    const names = items.map(tool => tool.name);
    for (const name of ['echo', 'add', 'slow']) {
      expect(names.includes(name), `tool ${name} is not listed`);
    }
    expect(new Set(names).size === names.length, 'a tool is listed twice');
    return { count: names.length, pages };
  },

  async call(peer) {
    const result = await peer.call('echo', { message: 'hello' });
    expect(textOf(result).includes('hello'), `echo answered ${show(result)}`);
  },

  async structured(peer) {
    const result = await peer.call('add', { a: 2, b: 3 });
    expect(result.structuredContent?.sum === 5, `add answered ${show(result)}`);
    expect(textOf(result).includes('5'), `add has no text beside its structure: ${show(result)}`);
  },

  async tool_error(peer) {
    const result = await peer.call('fail', { message: 'out of luck' });
    expect(result.isError === true, `fail did not set isError: ${show(result)}`);
    expect(textOf(result).includes('out of luck'), `fail lost its message: ${show(result)}`);
  },

  async unknown_tool(peer) {
    try {
      const result = await peer.call('no_such_tool', {});
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
    const result = await peer.call('slow', { steps: 3, delay_ms: 10 }, { onprogress });
    peer.onWire = undefined;
    expect(textOf(result).includes('done'), `slow answered ${show(result)}`);
    expect(sent.length === 3, `expected 3 progress notes, got ${show(sent)}`);
    expect(sent.every((value, i) => i === 0 || value > sent[i - 1]), `not increasing: ${show(sent)}`);
    expect(delivered.every((value, i) => value === sent[i]), `of ${show(sent)} the SDK delivered ${show(delivered)}`);
    return { progress: sent, delivered: delivered.length };
  },

  async cancel(peer) {
    const abort = new AbortController();
    const options = { onprogress: () => abort.abort('enough'), signal: abort.signal };
    const outcome = await peer.call('slow', { steps: 1000, delay_ms: 20 }, options).then(
      result => ({ result }),
      error => ({ error }),
    );
    expect(abort.signal.aborted, `slow ended before its first progress note: ${show(outcome)}`);
    expect(outcome.error, `cancelled call still answered ${show(outcome.result)}`);
    const result = await peer.call('echo', { message: 'still here' });
    expect(textOf(result).includes('still here'), `echo after cancel answered ${show(result)}`);
  },

  async elicit(peer) {
    const result = await peer.call('ask', { question: 'favourite colour?' });
    expect(textOf(result).includes('blue'), `ask answered ${show(result)}`);
  },

  async sample(peer) {
    const result = await peer.call('sample', { prompt: 'say something' });
    expect(textOf(result).includes('sampled'), `sample answered ${show(result)}`);
  },

  async roots(peer) {
    const result = await peer.call('roots', {});
    expect(textOf(result).includes('file:///workspace'), `roots answered ${show(result)}`);
  },

  async read(peer) {
    const listed = (await peer.client.listResources()).resources.map(item => item.uri);
    expect(listed.includes('demo://clock'), `demo://clock is not among ${show(listed)}`);
    const { resourceTemplates } = await peer.client.listResourceTemplates();
    const templates = resourceTemplates.map(item => item.uriTemplate);
    expect(templates.includes('demo://file/{name}'), `demo://file/{name} is not among ${show(templates)}`);
    for (const uri of ['demo://clock', 'demo://file/readme']) {
      const { contents } = await peer.client.readResource({ uri });
      expect(contents[0]?.uri === uri && contents[0].text, `${uri} read as ${show(contents)}`);
    }
  },

  async prompt(peer) {
    const listed = (await peer.client.listPrompts()).prompts.map(item => item.name);
    expect(listed.includes('greet'), `prompt greet is not among ${show(listed)}`);
    const { messages } = await peer.client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
    expect(messages.some(message => message.content.text?.includes('Ada')), `greet gave ${show(messages)}`);
  },

  async complete(peer) {
    const ref = { type: 'ref/prompt', name: 'greet' };
    const { completion } = await peer.client.complete({ ref, argument: { name: 'name', value: 'A' } });
    expect(completion.values.length >= 1, 'no completion for the prefix A');
    return { values: completion.values };
  },

  async log(peer) {
    const note = peer.notes.next('log');
    const level = await peer.callLogged('note', { level: 'warning', message: 'hi' });
    const { params } = await note;
    expect(params.level === 'warning' && show(params.data).includes('hi'), `log note was ${show(params)}`);
    return { level };
  },

  async changed(peer) {
    const close = await peer.listen();
    const note = peer.notes.next('tools');
    await peer.call('change', { what: 'tools' });
    await note;
    await close();
  },

  async ping(peer) {
    await peer.ping();
  },
};

async function attempt(body, peer) {
  try {
    const facts = await Promise.race([body(peer), after(CHECK_TIMEOUT_MS)]);
    return { ok: true, ...facts };
  } catch (error) {
    const why = error?.message ?? String(error);
    return { ok: error instanceof Skip ? null : false, why };
  }
}

function after(ms) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms).unref();
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
