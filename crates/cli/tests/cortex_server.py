"""A server of the cortex dialect: tool calls only, no handshake, closed schemas."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    assert set(message) <= {"jsonrpc", "id", "method", "params"}, message
    assert message["method"] == "tools/call", message
    assert set(message["params"]) <= {"name", "arguments"}, message
    given = message["params"].get("arguments", {})
    result = {"content": [{"type": "text", "text": json.dumps(given, sort_keys=True)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
