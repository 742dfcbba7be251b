"""A legacy server that logs every line it reads and answers tool calls in one odd manner."""

import json
import sys

manner, log = sys.argv[1], sys.argv[2]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def complain():
    print("the disk is full", file=sys.stderr, flush=True)


def raw(line):
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()


def around(number, result):
    """An answer with something before it in its line, or without the end of it."""
    text = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
    before = {"tagged": b"[INFO] ", "prompted": b"> ", "coloured": b"\x1b[0m", "marked": b"\xef\xbb\xbf"}
    if manner in before:
        raw(before[manner] + text)
    elif manner == "echoed":
        raw(b"sending " + text)
        raw(text)
    elif manner in ("endless", "endless and cut"):
        sys.stdout.buffer.write(text if manner == "endless" else text[:-20])
        sys.stdout.flush()
    else:
        return False
    return True


def unsound(number):
    """Answers that do not say whose they are, or say it in no proper message."""
    fine = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "mended"}]}}
    text = json.dumps(fine).encode()
    lines = {
        "no id": json.dumps({"jsonrpc": "2.0", "result": fine["result"]}).encode(),
        "null id": json.dumps({**fine, "id": None}).encode(),
        "other id": json.dumps({**fine, "id": 999}).encode(),
        "word as id": json.dumps({**fine, "id": "word"}).encode(),
        "list as id": json.dumps({**fine, "id": [number]}).encode(),
        "both and no id": b'{"jsonrpc":"2.0","result":{},"error":{"code":1,"message":"x"}}',
        "null error": json.dumps({**fine, "error": None}).encode(),
        "version 1": json.dumps({**fine, "jsonrpc": "1.0"}).encode(),
        "no version": json.dumps({"id": number, "result": fine["result"]}).encode(),
        "no outcome": json.dumps({"jsonrpc": "2.0", "id": number}).encode(),
        "array": json.dumps([fine]).encode(),
        "array, no version": json.dumps([{"id": number, "result": fine["result"]}]).encode(),
        "array, no id": json.dumps([{"jsonrpc": "2.0", "result": fine["result"]}]).encode(),
        "array, word as id": json.dumps([{**fine, "id": "word"}]).encode(),
        "array, id as text": json.dumps([{**fine, "id": str(number)}]).encode(),
        "nul": text + b"\0",
        "cut": text[:-20],
        "cut, no id": b'{"jsonrpc":"2.0","result":{"content":[',
        "bytes": text.replace(b"mended", b"\xff\xfe"),
        "prose": b"Traceback (most recent call last)\x07",
        "pretty": json.dumps(fine, indent=2).encode(),
        "pretty, no id": json.dumps({"jsonrpc": "2.0", "result": fine["result"]}, indent=2).encode(),
        "cut in a name": b'{"jsonrpc":"2.0","id":%d,"resu' % number,
        "cut early": b'{"jsonrpc":"2.0","id":%d,' % number,
        "chatter": b"\n".join(b"line %d;" % nth for nth in range(40)),
    }
    if manner not in lines:
        return False
    raw(lines[manner])
    return True


def call(number):
    if around(number, {"content": [{"type": "text", "text": "mended"}]}) or unsound(number):
        pass
    elif manner == "prose and die":
        raw(b"panic!")
        sys.exit(7)
    elif manner == "both":
        send({"id": number, "result": {"content": []}, "error": {"code": 1, "message": "both"}})
    elif manner == "wordless":
        send({"id": number, "result": {"content": [], "isError": True}})
    elif manner == "shape":
        send({"id": number, "result": {"content": "not a list"}})
    elif manner == "bare":
        send({"id": number, "result": {}})
    elif manner == "fault":
        error = {"code": -32050, "message": "no \x1b[31mluck", "data": {"tries": 3}}
        send({"id": number, "error": error})
    elif manner in ("visit", "visit and leave"):
        visit = {"mode": "url", "message": "Log in", "url": "https://example.com/login", "elicitationId": "v1"}
        error = {"code": -32042, "message": "visit first", "data": {"elicitations": [visit]}}
        send({"id": number, "error": error})
        if manner == "visit and leave":
            sys.exit(7)
    elif manner == "die":
        print("about to die", file=sys.stderr, flush=True)
        sys.exit(7)
    elif manner == "fails":
        complain()
        send({"id": number, "result": {"content": [{"type": "text", "text": "no"}], "isError": True}})
    elif manner == "complains":
        complain()
        send({"id": number, "error": {"code": -32050, "message": "no"}})
    elif manner == "huge":
        send({"id": number, "result": {"content": [{"type": "text", "text": "x" * (17 << 20)}]}})
    elif manner == "huge, no id":
        raw(b'{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"' + b"x" * (17 << 20) + b'"}]}}')
    elif manner == "huge prose":
        raw(b"x" * (17 << 20))
    elif manner == "extra":
        result = {"content": [{"type": "hologram", "size": 1.50}], "future": [1, 2]}
        send({"id": number, "result": result})
    elif manner == "samples":
        # It asks whoever is there, whatever they declared.
        wish = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
        send({"id": "ask", "method": "sampling/createMessage", "params": wish})
        sys.stdin.readline()
        send({"id": number, "result": {"content": [{"type": "text", "text": "no model"}], "isError": True}})
    elif manner.startswith("promises "):
        given = {"fine": {"sky": {"degrees": 3}}, "wrong": {"sky": {"degrees": "warm"}}}.get(manner.split()[1])
        content = {"structuredContent": given} if given else {}
        failed = {"isError": True} if manner.endswith("failure") else {}
        if manner == "promises masses":
            content = {"structuredContent": {"sky": [0] * 200_000}}
        if manner == "promises infinity":
            said = '{"content":[{"type":"text","text":"3 degrees"}],"structuredContent":{"sky":{"degrees":1e400}}}'
            return raw(f'{{"jsonrpc":"2.0","id":{number},"result":{said}}}'.encode())
        send({"id": number, "result": {"content": [{"type": "text", "text": "3 degrees"}], **content, **failed}})
    elif manner in ("answers notes", "mute", "modern", "bad list"):
        send({"id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})
    # "hang" says nothing.


with open(log, "a", encoding="utf-8") as kept:
    for line in sys.stdin:
        kept.write(line)
        kept.flush()
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if number is None and manner == "answers notes":
            send({"id": None, "result": {}})
            send({"id": None, "error": {"code": -32601, "message": "method not found"}})
        if number is None:
            continue
        if manner == "modern" and "_meta" in message.get("params", {}):
            if method == "subscriptions/listen":
                meta = {"io.modelcontextprotocol/subscriptionId": number}
                wished = message["params"]["notifications"]
                notes = [("subscriptions/acknowledged", {"notifications": wished})]
                notes += [("resources/updated", {"uri": uri.replace("/tmp/", "/private/tmp/")}) for uri in wished["resourceSubscriptions"]]
                for name, params in notes:
                    send({"method": f"notifications/{name}", "params": {"_meta": meta, **params}})
                send({"id": number, "result": {"resultType": "complete", "_meta": meta}})
                continue
            if method == "server/discover":
                able = {"tools": {}, "resources": {"subscribe": True}}
                offer = {"supportedVersions": ["2026-07-28"], "capabilities": able, "ttlMs": 0}
                send({"id": number, "result": {"resultType": "complete", "cacheScope": "private", **offer}})
                continue
        elif manner == "modern":
            send({"id": number, "error": {"code": -32601, "message": "method not found"}})
            continue
        if manner == "mute" and method == "server/discover":
            continue
        if method == "initialize" and manner == "refuses":
            complain()
            send({"id": number, "error": {"code": -32050, "message": "no licence"}})
        elif method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "odd", "version": "1"}
            more = {"bad list": {"prompts": {}}, "no templates": {"resources": {}}}
            offered = {"tools": {}, **more.get(manner, {})}
            result = {"protocolVersion": version, "capabilities": offered, "serverInfo": info}
            greets, manner = manner.startswith("greets "), manner.removeprefix("greets ")
            if not (greets and around(number, result)):
                send({"id": number, "result": result})
        elif method == "tools/list":
            hints = {"readOnlyHint": True, "idempotentHint": True}
            takes = {"n": {"type": "integer", "minimum": 1}, "word": {"type": "string", "pattern": "^[a-z]+$"}, "many": {"type": "array"}}
            schema = {"type": "object", "properties": takes, "dependentRequired": {"word": ["n"]}}
            tool = {"name": "odd", "annotations": hints, "inputSchema": schema}
            if manner.startswith("promises "):
                sky = {"type": "object", "properties": {"degrees": {"type": "integer"}}}
                tool["outputSchema"] = {"type": "object", "properties": {"sky": sky}, "required": ["sky"]}
            if manner == "promises masses":
                tool["outputSchema"]["properties"] |= {f"p{n}": {"type": "integer"} for n in range(1000)}
                tool["outputSchema"]["properties"]["sky"] = {"type": "array"}
            if manner == "promises nonsense":
                tool["outputSchema"] = {"type": "object", "properties": {"sky": {"type": "weather"}}}
            more = {"nextCursor": "again"} if manner == "circles" else {}
            bad = [{"name": "noschema"}] if manner == "bad list" else []
            send({"id": number, "result": {"tools": bad + [tool], **more}})
        elif method == "resources/list" and manner == "no templates":
            send({"id": number, "result": {"resources": [{"uri": "odd://it", "name": "it"}]}})
        elif method == "prompts/list":
            send({"id": number, "result": {"prompts": [{}, {"name": "bad", "arguments": 5}, {"name": "fine"}]}})
        elif method == "prompts/get":
            said = {"role": "user", "content": {"type": "text", "text": "hi"}}
            send({"id": number, "result": {"messages": [said]}})
        elif method == "tools/call":
            call(number)
        else:
            send({"id": number, "error": {"code": -32601, "message": "method not found"}})
