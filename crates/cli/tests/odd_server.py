"""A legacy server that logs every line it reads and answers tool calls in one odd manner."""

import json
import sys

manner, log = sys.argv[1], sys.argv[2]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def complain():
    print("the disk is full", file=sys.stderr, flush=True)


def call(number):
    if manner == "both":
        send({"id": number, "result": {"content": []}, "error": {"code": 1, "message": "both"}})
    elif manner == "shape":
        send({"id": number, "result": {"content": "not a list"}})
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
    elif manner == "extra":
        result = {"content": [{"type": "hologram", "size": 1.50}], "future": [1, 2]}
        send({"id": number, "result": result})
    # "hang" says nothing.


with open(log, "a", encoding="utf-8") as kept:
    for line in sys.stdin:
        kept.write(line)
        kept.flush()
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if number is None:
            continue
        if method == "initialize" and manner == "refuses":
            complain()
            send({"id": number, "error": {"code": -32050, "message": "no licence"}})
        elif method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "odd", "version": "1"}
            send({"id": number, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
        elif method == "tools/list":
            hints = {"readOnlyHint": True, "idempotentHint": True}
            tool = {"name": "odd", "annotations": hints, "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
            send({"id": number, "result": {"tools": [tool]}})
        elif method == "tools/call":
            call(number)
        else:
            send({"id": number, "error": {"code": -32601, "message": "method not found"}})
