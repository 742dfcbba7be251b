"""Servers that misbehave. Each behaviour says where it shows; all else is as it should be."""

import json
import os
import random
import signal

from wire import META, MIB, MODERN, Lines, write_all

SERVERS = {}


def server(*at):
    """Registers a behaviour, and where it shows: start, probe, initialize, list, call."""

    def register(function):
        SERVERS[function.__name__] = (at, function)
        return function

    return register


class Server:
    def __init__(self, at, misbehave):
        self.at, self.misbehave = at, misbehave
        self.lines = Lines(0)
        self.before, self.end, self.step = b"", b"\n", None
        self.heard, self.waiting = [], []

    def write(self, raw):
        for at in range(0, len(raw), self.step or len(raw) or 1):
            write_all(1, raw[at : at + (self.step or len(raw))])

    def send(self, message):
        self.write(self.before + json.dumps(message).encode() + self.end)

    def note(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def call(self, id, method, **params):
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def progress(self, call, value, **more):
        token = call["params"]["_meta"]["progressToken"]
        self.note("notifications/progress", progressToken=token, progress=value, **more)

    def serve(self):
        if "start" in self.at:
            self.misbehave(self)
        while (line := self.lines.next()) is not None:
            self.handle(json.loads(line))

    def handle(self, message):
        if "method" not in message:
            return self.heard.append(message.get("error", {}).get("code", "ok"))
        if "id" not in message:
            return None
        at = {"server/discover": "probe", "initialize": "initialize", "tools/list": "list"}.get(message["method"])
        if message["method"] == "tools/call" and message["params"]["name"] == "evil":
            at = "call"
        return self.misbehave(self, message) if at in self.at else self.send(self.answer(message))

    def answer(self, message):
        """The right answer to a call."""
        params, result = message.get("params", {}), {}
        if message["method"] == "server/discover":
            result = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
        elif message["method"] == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "evil", "version": "1"}
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            text = params.get("arguments", {}).get("message", "")
            result = {"content": [{"type": "text", "text": text}], "structuredContent": {"heard": self.heard}}
        if META + "protocolVersion" in params.get("_meta", {}):
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def fault(message, code, text="no", **data):
    error = {"code": code, "message": text, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}


# What is not a message, around those that are.


@server("start")
def banner(s):
    s.write(b"Evil Server 1.0\n\x1b[32mready\x1b[0m\nlistening on stdio\n")


@server("start")
def blank_lines(s):
    s.before = b"\n\r\n \t \n"


@server("start")
def byte_order_mark(s):
    s.write(b"\xef\xbb\xbf")


@server("start")
def crlf(s):
    s.end = b"\r\n"


@server("start")
def byte_by_byte(s):
    s.step = 1


@server("call")
def not_utf8(s, message):
    s.write(b'{"jsonrpc":"2.0","method":"notifications/\xff\xfe"}\n\xc3\x28\n')
    s.send(s.answer(message))


@server("call")
def nul_bytes(s, message):
    s.write(b'\0\0\0\n{"jsonrpc":"2.0","method":"a\0b"}\n')
    s.send(s.answer(message))


@server("call")
def noise_flood(s, message):
    s.write(b"debug: still thinking\n" * 2000)
    s.send(s.answer(message))


@server("call")
def garbage_flood(s, message):
    """Two hundred thousand lines that are wrong in turn, with enough messages in between to go on."""
    wrong = [b"noise", b"{}", b"5", b'{"jsonrpc":"2.0","id":99999,"result":{}}', b'{"jsonrpc":"2.0","method":"no/such"}']
    block = b"".join(line + b"\n" for line in wrong) * 100
    for _ in range(400):
        s.write(block)
    s.send(s.answer(message))


@server("call")
def oversize_line(s, message):
    for _ in range(20):
        s.write(b"x" * MIB)
    s.write(b"\n")
    s.send(s.answer(message))


@server("call")
def oversize_reply(s, message):
    s.send({**s.answer(message), "result": {"content": [], "big": "x" * 20 * MIB}})


@server("call")
def deep_line(s, message):
    s.write(b"[" * 10000 + b"]" * 10000 + b'\n{"a":' + b'{"a":' * 10000 + b"\n")
    s.send(s.answer(message))


@server("call")
def deep_reply(s, message):
    head = json.dumps({"jsonrpc": "2.0", "id": message["id"]}).encode()[:-1]
    s.write(head + b',"result":{"content":' + b"[" * 10000 + b"]" * 10000 + b"}}\n")


@server("call")
def stderr_flood(s, message):
    for _ in range(32):
        write_all(2, (b"e" * 1023 + b"\n") * 1024)
    s.send(s.answer(message))


@server("call")
def half_line(s, message):
    raw = json.dumps(s.answer(message)).encode()
    s.write(raw[: len(raw) // 2])
    os.write(2, b"out of ink\n")
    os._exit(3)


@server("call")
def whole_line_without_newline(s, message):
    s.write(json.dumps(s.answer(message)).encode())
    os._exit(0)


@server("call")
def closes_stdout(s, message):
    os.close(1)
    while s.lines.next() is not None:
        pass


@server("call")
def deaf(s, message):
    s.progress(message, 1)
    signal.pause()


@server("call")
def killed(s, message):
    os.kill(os.getpid(), signal.SIGKILL)


@server("call")
def silent(s, message):
    pass


# Opening.


@server("probe")
def dies_at_probe(s, message):
    os._exit(1)


@server("probe")
def mute_at_probe(s, message):
    pass


@server("probe")
def empty_probe(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})


@server("probe")
def nonsense_probe(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": 5, "error": "what?"})


@server("probe")
def prose_probe(s, message):
    s.write(b"Traceback (most recent call last):\n  KeyError: 'server/discover'\n")
    s.send(fault(message, -32601))


@server("probe")
def future_only(s, message):
    reply = s.answer(message)
    reply["result"]["supportedVersions"] = ["2099-01-01"]
    s.send(reply)


@server("probe", "initialize")
def late_discover(s, message):
    s.waiting.append(message)
    if message["method"] == "initialize":
        s.send(s.answer(s.waiting[0]))
        s.send(fault(message, -32601))


@server("probe", "initialize")
def initialize_says_modern(s, message):
    s.waiting.append(message)
    if len(s.waiting) == 1 and message["method"] == "server/discover":
        return s.send(fault(message, -32601))
    if message["method"] == "initialize":
        return s.send(fault(message, -32022, supported=[MODERN], requested=message["params"]["protocolVersion"]))
    return s.send(s.answer(message))


@server("initialize")
def initialize_unknown_version(s, message):
    reply = s.answer(message)
    reply["result"]["protocolVersion"] = "1999-01-01"
    s.send(reply)


@server("initialize")
def initialize_without_version(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": {"capabilities": {}}})


@server("initialize")
def initialize_not_an_object(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": []})


@server("initialize")
def initialize_both(s, message):
    s.send({**s.answer(message), "error": {"code": 1, "message": "x"}})


@server("initialize")
def initialize_silent(s, message):
    pass


@server("initialize")
def initialize_dies(s, message):
    os.write(2, b"no licence found\n")
    os._exit(7)


# Replies that are none, or none of this call.


@server("call")
def both_outcomes(s, message):
    s.send({**s.answer(message), "error": {"code": 1, "message": "x"}})


@server("call")
def no_outcome(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"]})


@server("call")
def wrong_version(s, message):
    s.send({**s.answer(message), "jsonrpc": "1.0"})


@server("call")
def missing_version(s, message):
    reply = s.answer(message)
    del reply["jsonrpc"]
    s.send(reply)


@server("call")
def error_is_text(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "error": "it broke"})


@server("call")
def string_id(s, message):
    s.send({**s.answer(message), "id": str(message["id"])})


@server("call")
def null_id_error(s, message):
    s.send({**fault(message, -32700), "id": None})


@server("call")
def unknown_ids(s, message):
    for id in [999999, -1, "abc", 0.5]:
        s.send({**s.answer(message), "id": id})
    s.send(s.answer(message))


@server("call")
def duplicate_reply(s, message):
    s.send(s.answer(message))
    s.send(s.answer(message))


@server("call")
def two_results(s, message):
    s.send(s.answer(message))
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "the other"}]}})
    s.send(fault(message, -32603))


@server("call")
def reply_after_cancel(s, message):
    s.progress(message, 1, message="cancel me")
    while json.loads(s.lines.next()).get("method") != "notifications/cancelled":
        pass
    s.send(s.answer(message))
    s.progress(message, 2)


@server("call")
def batch_reply(s, message):
    s.send([s.answer(message), {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}])


@server("initialize", "call")
def batch_reply_in_its_revision(s, message):
    reply = s.answer(message)
    if message["method"] == "initialize":
        reply["result"]["protocolVersion"] = "2025-03-26"
        return s.send(reply)
    return s.send([reply, 5])


@server("call")
def result_not_an_object(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": "fine"})


@server("call")
def unknown_result_type(s, message):
    reply = s.answer(message)
    reply["result"]["resultType"] = "maybe"
    s.send(reply)


@server("call")
def wrong_shape(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": {"content": 5}})


@server("call")
def shuffled(s, message):
    s.waiting.append(message)
    if len(s.waiting) == 200:
        random.shuffle(s.waiting)
        for waiting in s.waiting:
            s.send(s.answer(waiting))


@server("call")
def doubled(s, message):
    """Everything twice, with a stranger in between."""
    reply = s.answer(message)
    other = {"content": [{"type": "text", "text": "not yours"}]}
    for one in [reply, {**reply, "id": random.randrange(1 << 30, 1 << 40), "result": other}, reply, {**reply, "result": other}]:
        s.send(one)


# Asks, notes and calls that do not belong.

FORM = {"message": "again?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}


def ask(message, method, params):
    result = {"resultType": "input_required", "inputRequests": {"q": {"method": method, "params": params}}, "requestState": "s"}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@server("list")
def ask_on_list(s, message):
    s.send(ask(message, "elicitation/create", FORM))


@server("call")
def ask_forever(s, message):
    s.send(ask(message, "elicitation/create", FORM))


@server("call")
def ask_undeclared(s, message):
    s.send(ask(message, "sampling/createMessage", {"messages": [], "maxTokens": 1}))


@server("call")
def ask_for_nothing(s, message):
    s.send({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "input_required"}})


@server("call")
def calls_the_client(s, message):
    s.call(1, "ping")
    s.call("a", "roots/list")
    s.call(2, "no/such")
    s.call(3, "tools/list")
    s.call(4, "initialize", protocolVersion=MODERN)
    s.send(s.answer(message))


@server("call")
def cancels_our_call(s, message):
    s.note("notifications/cancelled", requestId=message["id"], reason="no time")
    s.note("notifications/cancelled", requestId={})
    s.send(s.answer(message))


@server("call")
def odd_notes(s, message):
    s.note("notifications/no-such-thing")
    s.note("notifications/initialized")
    s.send({"jsonrpc": "2.0", "method": "notifications/message", "params": [1]})
    s.send({"jsonrpc": "2.0", "id": None, "method": "ping"})
    s.send(s.answer(message))


@server("call")
def progress_flood(s, message):
    for n in range(10000):
        s.progress(message, n)
    s.send(s.answer(message))


@server("call")
def progress_backwards(s, message):
    for value in [5, 3, 3, -1]:
        s.progress(message, value)
    s.send(s.answer(message))


@server("call")
def progress_unknown(s, message):
    for token in [777, "abc"]:
        s.note("notifications/progress", progressToken=token, progress=1)
    s.note("notifications/progress", progress=1)
    s.note("notifications/progress", progressToken=message["id"], progress="half")
    s.send(s.answer(message))
    s.progress(message, 1)


@server("call")
def progress_forever(s, message):
    n = 0
    while s.lines.next(0.02) is None and not s.lines.ended:
        n += 1
        s.progress(message, n)


@server("list")
def same_cursor(s, message):
    reply = s.answer(message)
    reply["result"]["nextCursor"] = "more"
    s.send(reply)


@server("list")
def new_cursors(s, message):
    reply = s.answer(message)
    reply["result"]["nextCursor"] = str(random.random())
    s.send(reply)
