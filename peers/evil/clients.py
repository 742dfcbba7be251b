"""Clients that misbehave. Each behaviour sends; what came back until a last valid call is reported."""

import json
import resource
import signal
import subprocess
import threading

from wire import META, MIB, MODERN, Lines, write_all

CLIENTS = {}
# A server that says nothing for longer than this is reported as silent.
PATIENCE_SECONDS = 20
# The last call: whatever comes before its reply was caused by the behaviour.
LAST = "alive"


def client(function):
    """Registers a behaviour."""
    CLIENTS[function.__name__] = function
    return function


class Silence(Exception):
    """The server said nothing in time, or left."""


class Client:
    def __init__(self, command):
        # Whatever happens, this process ends, and the server with it.
        signal.alarm(3 * PATIENCE_SECONDS)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.stdin = self.process.stdin.fileno()
        self.lines = Lines(self.process.stdout.fileno())
        self.seen, self.report = [], {}

    def play(self, behaviour):
        """Plays, sees whether the server still serves, and ends it."""
        try:
            behaviour(self)
            self.barrier()
            self.report["served"] = True
        except (Silence, BrokenPipeError) as why:
            self.report["served"] = False
            self.report["why"] = repr(why)
        self.process.stdin.close()
        # What is still said is read, or the server could not leave.
        while (line := self.lines.next(PATIENCE_SECONDS)) is not None:
            self.seen.append(short(json.loads(line)))
        self.report["exit"] = self.process.wait()
        self.report["peak_kib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return {"seen": self.seen, **self.report}

    def raw(self, *lines):
        for line in lines:
            write_all(self.stdin, line if isinstance(line, bytes) else line.encode())
            write_all(self.stdin, b"\n")

    def send(self, *messages):
        self.raw(*map(json.dumps, messages))

    def read(self):
        line = self.lines.next(PATIENCE_SECONDS)
        if line is None:
            raise Silence("the end" if self.lines.ended else "nothing in time")
        return json.loads(line)

    def take(self, count):
        """The next messages, remembered."""
        messages = [self.read() for _ in range(count)]
        self.seen += map(short, messages)
        return messages

    def barrier(self):
        """Remembers all until the reply to a valid call."""
        self.send(tool(LAST, "echo", message="still there"))
        while True:
            message = self.read()
            if isinstance(message, dict) and message.get("id") == LAST:
                assert message["result"]["content"][0]["text"] == "still there", message
                return
            self.seen.append(short(message))

    def shake(self, revision="2025-11-25", **capabilities):
        """A handshake as it should be. Its reply is not remembered, what comes before it is."""
        self.send(initialize("open", revision, **capabilities), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        while (message := self.read()).get("id") != "open":
            self.seen.append(short(message))


def short(message):
    """A message in a few characters: the id and how it was answered."""
    if isinstance(message, list):
        shown = [short(one) for one in message]
        return "[" + ", ".join(shown if len(shown) < 8 else [shown[0], f"{len(shown)} in all", shown[-1]]) + "]"
    if "method" in message:
        return ("? " if "id" in message else "~ ") + message["method"]
    id = json.dumps(message["id"]) if "id" in message else "-"
    if "error" in message:
        return f"{id} {message['error']['code']}"
    result = message["result"]
    asks = result.get("resultType") == "input_required"
    return f"{id} {'asks' if asks else 'failed' if result.get('isError') else 'ok'}"


def legacy(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def modern(id, method, **params):
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {"elicitation": {"form": {}}}}
    return legacy(id, method, **{"_meta": meta, **params})


def tool(id, name, **arguments):
    return modern(id, "tools/call", name=name, arguments=arguments)


def initialize(id, revision, **capabilities):
    info = {"name": "evil", "version": "1"}
    return legacy(id, "initialize", protocolVersion=revision, capabilities=capabilities, clientInfo=info)


def cancel(id):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


# Lines that are no messages.


@client
def garbage(c):
    c.raw("not json", "{", "5", "null", '"text"', "{}", '{"jsonrpc":"2.0"}', b"\xff\xfe", b"\0\0", "[1,]", '{"a":1} {"b":2}')


@client
def foreign_lines(c):
    """Not wrong: a byte order mark, blank lines, CRLF, blanks, one byte at a time."""
    c.raw(b"\xef\xbb\xbf" + json.dumps(legacy(1, "ping")).encode() + b"\r", "", " \t ", "  " + json.dumps(legacy(2, "ping")) + "  ")
    for byte in json.dumps(legacy(3, "ping")).encode() + b"\n":
        write_all(c.stdin, bytes([byte]))


@client
def noise_flood(c):
    c.raw(*["noise"] * 2000)


@client
def half_line(c):
    write_all(c.stdin, b'{"jsonrpc":"2.0","id":1,"meth')
    c.process.stdin.close()
    raise Silence("stdin is closed")


@client
def call_without_newline(c):
    """The end of input in place of the newline: what was asked before is still answered."""
    c.send(tool(1, "slow", steps=1, delay_ms=100))
    write_all(c.stdin, json.dumps(legacy(2, "ping")).encode())
    c.process.stdin.close()
    raise Silence("stdin is closed")


@client
def oversize_line(c):
    for _ in range(20):
        write_all(c.stdin, b"x" * MIB)
    c.raw("")


@client
def deep_json(c):
    c.raw("[" * 10000 + "]" * 10000, "[" * 1000000, '{"a":' * 10000)
    nested = "[" * 10000 + "]" * 10000
    c.raw('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + nested + "}}")
    deep = message = {}
    for _ in range(100):
        deep["a"] = deep = {}
    c.send(tool(2, "echo", message="x", deep=message))


# Messages that are wrong.


@client
def duplicate_keys(c):
    c.raw('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}')
    c.raw('{"jsonrpc":"2.0","id":3,"method":"ping","method":"tools/list"}')
    c.raw('{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","name":"panic"}}')
    c.raw('{"jsonrpc":"2.0","id":5,"method":"ping","m\\u0065thod":"tools/list"}')
    once = json.dumps(tool(6, "echo", message="x"))
    c.raw(once.replace('"_meta": {', '"_meta": {"' + META + 'protocolVersion": "1999-01-01", '))
    c.raw(json.dumps(tool(7, "echo", message="x")).replace('"message"', '"message": "y", "message"'))


@client
def duplicate_ids(c):
    c.send(tool(1, "slow", steps=1, delay_ms=200), tool(1, "echo", message="x"), tool(1, "panic"))
    c.take(3)


@client
def ids_alike(c):
    """One, "1" and 1.0 are three ids."""
    c.send(*(tool(id, "slow", steps=1, delay_ms=50) for id in [1, "1", 1.0]))
    c.seen = sorted(map(short, [c.read() for _ in range(3)]))


@client
def wrong_ids(c):
    c.send(*(legacy(id, "ping") for id in [None, {}, [], True, "x" * 300, "", -5, 2**63]))
    c.raw('{"jsonrpc":"2.0","id":1e400,"method":"ping"}')


@client
def wrong_params(c):
    c.send(*({"jsonrpc": "2.0", "id": n, "method": "tools/list", "params": p} for n, p in enumerate([[1], "x", 5, None])))
    c.send(legacy(10, "tools/call", _meta=[]), legacy(11, "ping", _meta="x"), legacy(12, "ping", _meta=None))
    c.send(modern(20, "tools/call"), modern(21, "tools/call", name=5), modern(22, "tools/call", name="no such"))
    c.send(modern(23, "tools/call", name="echo", arguments=[1]), modern(24, "tools/call", name="echo"))
    c.send(modern(25, "tools/list", cursor="made up"), modern(26, "resources/read", uri="no://such"))
    c.send(modern(27, "prompts/get", name="no such"), modern(28, "completion/complete", ref={}, argument=5))


@client
def wrong_envelopes(c):
    for n, change in enumerate([{"jsonrpc": "1.0"}, {"jsonrpc": 2.0}, {"method": 5}, {"result": {}}, {"method": None}]):
        c.send({**legacy(n, "ping"), **change})
    c.raw('{"id":9,"method":"ping"}')


@client
def unknown_methods(c):
    for n, name in enumerate(["no/such", "", "sampling/createMessage", "notifications/progress", "ping", "x" * 10000]):
        c.send(modern(n, name))
    c.shake()
    c.send(legacy(10, "no/such"), legacy(11, "server/discover"), legacy(12, "roots/list"))


@client
def notes_nobody_knows(c):
    for name in ["no/such", "notifications/no-such", "tools/list", "initialize", "notifications/message", ""]:
        c.send({"jsonrpc": "2.0", "method": name})
        c.send({"jsonrpc": "2.0", "method": name, "params": [1]})
    c.raw('{"jsonrpc":"1.0","method":"x"}')


@client
def replies_nobody_wants(c):
    replies = [{"result": {}}, {"error": {"code": 1, "message": "x"}}, {"error": "x"}, {"result": {}, "error": {}}]
    wrong = [{"jsonrpc": "2.0", "id": id, **reply} for reply in replies for id in [1, "x", None]]
    c.send(*wrong)
    c.shake()
    c.send(*wrong)


# Opening.


@client
def before_initialize(c):
    c.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    c.send(legacy(1, "tools/list"), legacy(2, "tools/call", name="echo", arguments={"message": "x"}), legacy(3, "ping"))
    c.send({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}, initialize(5, "2025-11-25"), legacy(6, "tools/list"))


@client
def initialize_twice(c):
    c.send(initialize(1, "2025-11-25"), initialize(2, "2025-06-18"), legacy(3, "ping"))


@client
def initialize_oddly(c):
    c.send(legacy(1, "initialize"), legacy(2, "initialize", protocolVersion=5, capabilities={}, clientInfo={}))
    c.send(legacy(3, "initialize", protocolVersion="1999-01-01", capabilities={}, clientInfo={"name": "x", "version": "1"}))


@client
def initialize_batched(c):
    c.send([initialize(1, "2025-03-26")])
    c.shake("2025-03-26")
    c.send([initialize(2, "2025-03-26"), legacy(3, "ping")])


@client
def cancel_initialize(c):
    c.send(initialize(1, "2025-11-25"), cancel(1), legacy(2, "tools/list"))


@client
def modern_meta_missing(c):
    version, caps = {META + "protocolVersion": MODERN}, {META + "clientCapabilities": {}}
    odd = [{}, version, caps, {**version, META + "clientCapabilities": 5}, {**caps, META + "protocolVersion": 5}]
    odd += [{**version, **caps, META + "logLevel": "loud"}, {**version, **caps}, {**version, **caps, META + "clientInfo": 5}]
    c.send(*(modern(n, "tools/list", _meta=meta) for n, meta in enumerate(odd)))


@client
def unsupported_version(c):
    for n, version in enumerate(["1999-01-01", "2025-11-25", "", "draft"]):
        c.send(modern(n, "tools/list", _meta={META + "protocolVersion": version, META + "clientCapabilities": {}}))


@client
def eras_interleaved(c):
    c.shake()
    for n in range(0, 40, 2):
        c.send(legacy(n, "tools/call", name="echo", arguments={"message": str(n)}), tool(n + 1, "echo", message=str(n + 1)))
    results = [message["result"] for message in c.take(40)]
    c.report["texts"] = [int(result["content"][0]["text"]) for result in results]
    c.report["modern"] = [n for n, result in enumerate(results) if "resultType" in result]


# Batches.


@client
def batch_without_revision(c):
    c.send([legacy(1, "ping")])
    c.shake("2025-11-25")
    c.send([legacy(2, "ping"), legacy(3, "ping")])


@client
def batches(c):
    """In the one revision that has them: too long, empty, nested, mixed, notes only."""
    c.shake("2025-03-26")
    c.send([legacy(n, "ping") for n in range(65)], [], [[legacy(1, "ping")]], [5, legacy(2, "ping"), tool(3, "echo", message="x")])
    c.send([cancel(1), {"jsonrpc": "2.0", "id": 4, "result": {}}], [legacy(n, "ping") for n in range(64)])
    c.raw("[" + ",".join(["1"] * 1000000) + "]")


# Cancels, progress, asks, listens.


@client
def cancel_nonsense(c):
    c.send(cancel(99), cancel("x"), cancel({}), cancel(None), {"jsonrpc": "2.0", "method": "notifications/cancelled"})
    c.send(legacy(1, "notifications/cancelled", requestId=1))


@client
def cancel_twice(c):
    c.send(tool(1, "slow", steps=100, delay_ms=100), cancel(1), cancel(1), tool(2, "echo", message="x"), cancel(2))


@client
def cancel_other_type(c):
    """A cancel of "1" is none of 1."""
    c.send(tool(1, "slow", steps=1, delay_ms=50), cancel("1"), cancel(1.0))
    c.take(1)


@client
def progress_tokens(c):
    for n, token in enumerate(["t", "", 7, -3, 1.5, "x" * 10000, None, True, {}, []]):
        call = tool(n, "slow", steps=1, delay_ms=0)
        call["params"]["_meta"]["progressToken"] = token
        c.send(call)
        told = []
        while "id" not in (message := c.read()):
            told.append(message["params"]["progressToken"])
        c.seen.append(short(message) + (" told" if told == [token] else f" {told}" if told else ""))


@client
def tampered_state(c):
    def asked(id, question="?", **more):
        return modern(id, "tools/call", name="ask", arguments={"question": question}, **more)

    c.send(asked(1))
    state = c.take(1)[0]["result"]["requestState"]
    given = {"answer": {"action": "accept", "content": {"answer": "blue"}}}
    flipped = state[:20] + ("A" if state[20] != "A" else "B") + state[21:]
    for n, wrong in enumerate([flipped, state[:-4], state + "AAAA", "", "no base64!", "x" * 100000]):
        c.send(asked(10 + n, inputResponses=given, requestState=wrong))
    c.send(asked(20, question="another", inputResponses=given, requestState=state))
    c.send(asked(21, inputResponses=given, requestState=5))
    c.send(modern(22, "tools/call", name="echo", arguments={"message": "x"}, inputResponses=given, requestState=state))
    c.send(asked(30, inputResponses=given, requestState=state))


@client
def garbage_answers(c):
    c.send(modern(1, "tools/call", name="ask", arguments={"question": "?"}))
    state = c.take(1)[0]["result"]["requestState"]
    many = {str(n): {} for n in range(33)}
    wrong = [5, [], "x", {"answer": 5}, {"answer": []}, {"answer": {}}, {"answer": {"action": "perhaps"}}, many]
    wrong += [{"answer": {"action": "accept", "content": {"answer": 5}}}, {"answer": {"action": "accept"}}, {}, {"other": {}}]
    for n, given in enumerate(wrong):
        c.send(modern(10 + n, "tools/call", name="ask", arguments={"question": "?"}, inputResponses=given, requestState=state))


@client
def garbage_listens(c):
    c.send(modern(1, "subscriptions/listen"), modern(2, "subscriptions/listen", notifications=5))
    c.send(modern(3, "subscriptions/listen", notifications={"toolsListChanged": "yes"}))
    c.send(modern(4, "subscriptions/listen", notifications={"resourceSubscriptions": "demo://clock"}))
    c.send(modern(5, "subscriptions/listen", notifications={"resourceSubscriptions": ["x://y"] * 1025}))
    c.send(modern(6, "subscriptions/listen", notifications={}), modern(6, "tools/list"), cancel(6), cancel(6))


@client
def many_listens(c):
    c.send(*(modern(n, "subscriptions/listen", notifications={"toolsListChanged": True}) for n in range(65)))


# Too much at once.


@client
def slow_calls(c):
    """More calls at once than are served; none may be lost."""
    c.send(*(tool(n, "slow", steps=1, delay_ms=1000) for n in range(300)))
    outcomes = {message["id"]: short(message).split()[1] for message in (c.read() for _ in range(300))}
    c.report["outcomes"] = {o: list(outcomes.values()).count(o) for o in set(outcomes.values())}


@client
def reads_late(c):
    """Ten thousand calls before the first reply is read."""
    c.send(*(tool(n, "echo", message="x" * 1000) for n in range(10000)))
    c.report["in_order"] = [c.read()["id"] for _ in range(10000)] == list(range(10000))


@client
def never_reads(c):
    """Ten thousand calls of 64 KiB each in return, and nothing is ever read."""
    c.send(*(tool(n, "big", bytes=64 << 10) for n in range(10000)))
    raise Silence("it took them all")


@client
def ping_flood(c):
    flood = threading.Thread(target=lambda: c.send(*(legacy(n, "ping") for n in range(100000))))
    flood.start()
    c.report["in_order"] = all(c.read() == {"jsonrpc": "2.0", "id": n, "result": {}} for n in range(100000))
    flood.join()


@client
def panics(c):
    """One call in a hundred panics."""
    c.send(*(tool(n, "panic" if n % 100 == 50 else "echo", message=str(n)) for n in range(1000)))
    c.report["outcomes"] = {}
    for _ in range(1000):
        outcome = short(c.read()).split()[1]
        c.report["outcomes"][outcome] = c.report["outcomes"].get(outcome, 0) + 1
