"""A server of one era that answers in any order, a part of the calls twice, and as many that nobody made."""

import json
import os
import random
import select
import sys

era, started, twice = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(started, "a", encoding="utf-8") as kept:
    kept.write("started\n")

INFO = {"name": "shuffling", "version": "1"}
SCHEMA = {"type": "object", "properties": {"nonce": {"type": "string"}}}
TOOLS = [{"name": "say", "inputSchema": SCHEMA}]
HELD = 64

random.seed(1)
pending, late, unread = [], [], b""


def result(value):
    if era == "modern":
        value["resultType"] = "complete"
        value["_meta"] = {"io.modelcontextprotocol/serverInfo": INFO}
    return value


def said(number, text):
    value = result({"content": [{"type": "text", "text": text}]})
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": value})


def answer(message):
    number, method = message["id"], message["method"]
    if method == "tools/call":
        pending.append(said(number, message["params"]["arguments"]["nonce"]))
        if random.random() < twice:
            late.append(said(number, "said twice"))
            late.append(said(random.choice([number + 1_000_000, str(number), "no such id"]), "said to nobody"))
        return
    if method == "initialize" and era == "legacy":
        version = message["params"]["protocolVersion"]
        value = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
    elif method == "server/discover" and era == "modern":
        value = result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        value.update(ttlMs=0, cacheScope="private")
    elif method == "tools/list":
        value = result({"tools": TOOLS})
        if era == "modern":
            value.update(ttlMs=0, cacheScope="private")
    elif method == "ping":
        value = {}
    else:
        error = {"code": -32601, "message": "method not found"}
        pending.append(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}))
        return
    pending.append(json.dumps({"jsonrpc": "2.0", "id": number, "result": value}))


def flush():
    random.shuffle(pending)
    lines = pending + late
    pending.clear()
    late.clear()
    out = memoryview("".join(line + "\n" for line in lines).encode())
    while out:
        out = out[os.write(1, out):]


while True:
    chunk = os.read(0, 1 << 16)
    if not chunk:
        break
    *lines, unread = (unread + chunk).split(b"\n")
    for line in lines:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)
    # As long as more comes, replies wait for others to be mixed with.
    if len(pending) >= HELD or not select.select([0], [], [], 0)[0]:
        flush()
