"""A legacy server that asks what it is told to ask, and answers a call with the answers.

The first argument is the file where every line it reads is kept, the second a JSON object:
- asks: requests to the client, made one after the other, or at once with "together"
- note: a log note sent with the first ask
- withdraw: a pipe; a line in it withdraws the first ask, the next one makes the others
- visits: addresses that must be visited before the call; a line in the pipe "end" ends them, without one they never do
- schema: of the tool's arguments
- prompts: what it lists; each is filled in with its arguments
- fails: the call fails in the end
"""

import json
import sys

log, script = sys.argv[1], json.loads(sys.argv[2])
visited = "visits" not in script
kept = open(log, "a", encoding="utf-8")


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    kept.write(line)
    kept.flush()
    return json.loads(line)


def answered(name):
    while True:
        message = read()
        if message.get("id") == name:
            return message.get("result") or message.get("error")
        if message.get("method") == "notifications/cancelled":
            return None


def ask(asks):
    for name, request in asks:
        send({"id": name, **request})
    if "note" in script:
        note = {"level": "warning", "data": script["note"]}
        send({"method": "notifications/message", "params": note})
    return [answered(name) for name, _ in asks]


def call(number, arguments):
    global visited
    if not visited:
        visited = True
        data = {"elicitations": [{"mode": "url", **visit} for visit in script["visits"]]}
        send({"id": number, "error": {"code": -32042, "message": "visit first", "data": data}})
        if "end" not in script:
            return
        with open(script["end"], encoding="utf-8") as pipe:
            pipe.readline()
        for visit in script["visits"]:
            note = {"elicitationId": visit["elicitationId"]}
            send({"method": "notifications/elicitation/complete", "params": note})
        return
    asks = [(f"ask-{at}", request) for at, request in enumerate(script.get("asks", []))]
    if script.get("together"):
        answers = ask(asks)
    elif "withdraw" in script:
        name, request = asks.pop(0)
        send({"id": name, **request})
        with open(script["withdraw"], encoding="utf-8") as pipe:
            pipe.readline()
            send({"method": "notifications/cancelled", "params": {"requestId": name}})
            pipe.readline()
        answers = ask(asks)
    else:
        answers = [answer for each in asks for answer in ask([each])]
    text = json.dumps(answers if asks else arguments, sort_keys=True)
    failed = {"isError": True} if script.get("fails") else {}
    send({"id": number, "result": {"content": [{"type": "text", "text": text}], **failed}})


while True:
    message = read()
    number, method = message.get("id"), message.get("method")
    if number is None:
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": script.get("name", "asking"), "version": "1"}
        abilities = {"tools": {}, "logging": {}, **({"prompts": {}} if "prompts" in script else {})}
        send({"id": number, "result": {"protocolVersion": version, "capabilities": abilities, "serverInfo": info}})
    elif method == "tools/list":
        schema = script.get("schema", {"type": "object"})
        send({"id": number, "result": {"tools": [{"name": "go", "inputSchema": schema}]}})
    elif method == "prompts/list" and "prompts" in script:
        send({"id": number, "result": {"prompts": script["prompts"]}})
    elif method == "prompts/get":
        text = json.dumps(message["params"].get("arguments"), sort_keys=True)
        send({"id": number, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}})
    elif method == "tools/call":
        call(number, message["params"].get("arguments"))
    elif method is not None:
        send({"id": number, "error": {"code": -32601, "message": "method not found"}})
