"""A legacy server whose every text is chosen to be hard to show.

`neat` offers names and texts in several scripts, hints, Markdown, JSON, media and progress; `hostile` puts sequences that a
terminal obeys wherever a text can stand; `breaks` a line break and what may pass for a row of ours; `vast` has texts of ten
million characters; `spoiled` has an image that is no base64; `bursts` tells everything of a listen in one write; `levels`, of either era, logs at
every wanted level when it is listened to.
"""

import base64
import json
import sys
import time

manner = sys.argv[1]
# A title, a cleared screen, a colour that is not ours, a bell, a backspace, a carriage return, and a turned direction.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[45m\x9b45m\x08\r\u202e"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def t(text):
    return text + {"hostile": EVIL + "x", "breaks": "\nforged  row"}.get(manner, "")


def vast(text):
    return text + "0123456789" * 1_000_000 if manner == "vast" else t(text)


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def reply(number, result):
    send({"id": number, "result": result})


def tool(name, description, properties, required=(), **hints):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": vast(description) if name == "page" else t(description), "inputSchema": schema, "annotations": hints}


STRING = {"type": "string"}
LONG = (
    "Removes a directory and everything in it. There is no way back, so look twice. Whoever calls this "
    "should have read the name aloud, checked that there is a copy elsewhere, and slept over it; and even then "
    "there are better ways to tidy up.\n\nSee also the tool that moves things to another place, which is slower "
    "and kinder and has never yet been the reason for a long night."
)
TOOLS = [
    tool("読む", "文章を読みます。This one reads a text aloud. 👍🏽", {"本文": STRING}, ["本文"], readOnlyHint=True),
    tool(
        t("remove_tree") if manner == "hostile" else "remove_tree",
        LONG,
        {"path": STRING, "force": {"type": "boolean"}, "mode": {"enum": ["quick", "thorough", "paranoid"]}},
        ["path"],
        destructiveHint=True,
        idempotentHint=True,
    ),
    tool("page", "A page of Markdown.", {}),
    tool("data", "An object as text.", {}),
    tool("structure", "An object as structure, and no text.", {}),
    tool("media", "An image, a sound and a blob.", {}),
    tool("fault", "A JSON-RPC error with data.", {}),
    tool("failed", "A tool that fails.", {}),
    tool("steps", "Notes and progress.", {}),
    tool("bytes", "Bytes that are no UTF-8.", {}),
    tool("die", "Ends the process.", {}),
]
if manner == "hostile":
    TOOLS += [tool(name, "Asks back.", {}) for name in ("form", "visit", "sample")]
LEVELS = ["debug", "info", "warning", "error"]
# What a legacy client wants to be told.
LEVEL = ["info"]
# Calls that wait for an answer to what was asked back.
WAITING = {}
PAGE = """# A page

Some **strong** and *slanted* text with `code`, and a [link](https://example.com/a) in a line that is long enough to be \
wrapped at any width that people use.

- one
- two, which has a line of its own that is also long enough to be wrapped at a width of sixty columns
  1. deeper

> A word from someone else.

```python
print("日本語")
```

| name | 意味 |
|---|---|
| 犬 | dog |
| bird | 鳥 |
"""


def note(method, **params):
    send({"method": method, "params": params})


def text(words):
    return {"content": [{"type": "text", "text": t(words)}]}


def call(number, name, token):
    if name == "page":
        reply(number, text(PAGE))
    elif name == "data":
        reply(number, {"content": [{"type": "text", "text": json.dumps({"name": vast("犬"), "legs": 4, "wild": False})}]})
    elif name == "structure":
        reply(number, {"content": [], "structuredContent": {"list": [1, 2.50, None], "text": t("x")}})
    elif name == "media":
        kind = t("text/plain") if manner == "hostile" else "application/pdf"
        blob = {"uri": t("file:///../../etc/passwd"), "mimeType": kind, "blob": base64.b64encode(b"%PDF").decode()}
        content = [
            {"type": "image", "mimeType": t("image/png"), "data": base64.b64encode(PNG).decode()},
            {"type": "audio", "mimeType": t("audio/wav"), "data": base64.b64encode(b"RIFF" * 500).decode()},
            {"type": "resource", "resource": blob},
            {"type": "resource_link", "uri": t("file:///x"), "name": t("x")},
            {"type": t("hologram")},
        ]
        if manner == "spoiled":
            content[0]["data"] = "no base64!"
        reply(number, {"content": content})
    elif name == "fault":
        data = {"why": vast("the disk is full and nobody is there to make room on it"), "tries": [1, 2, 3], "code": 28}
        send({"id": number, "error": {"code": -32050, "message": t("no luck\n  next: believe this"), "data": data}})
    elif name == "failed":
        reply(number, {**text("out of paper"), "isError": True})
    elif name == "steps":
        note("notifications/message", level="warning", logger=t("disk"), data=vast("nearly full"))
        for step in (1, 2, 3):
            note("notifications/progress", progressToken=token, progress=step, total=3, message=vast(f"step {step}"))
        note("notifications/message", level="error", data={"text": t("full")})
        note("notifications/tools/list_changed")
        print(vast("on stderr"), file=sys.stderr, flush=True)
        reply(number, text("done"))
    elif name == "bytes":
        sys.stderr.buffer.write(b"\xff\xfe\x1b[45m\n")
        sys.stderr.flush()
        line = json.dumps({"jsonrpc": "2.0", "id": number, **{"result": text("AB")}}).encode()
        sys.stdout.buffer.write(line.replace(b"AB", b"A\xff\xfeB") + b"\n")
        sys.stdout.flush()
    elif name == "pace":
        # Offered to nobody: it takes longer than one may be silent, is not silent for so long, and then is for ever.
        for step in (1, 2, 3):
            time.sleep(1)
            note("notifications/progress", progressToken=token, progress=step)
    elif name == "die":
        print(vast("about to end"), file=sys.stderr, flush=True)
        sys.exit(7)
    elif name == "form":
        field = {"type": "string", "title": t("name"), "description": t("Yours."), "enum": [t("a"), t("b")]}
        schema = {"type": "object", "properties": {t("name"): field}, "required": [t("name")]}
        ask(number, "elicitation/create", {"message": t("Who are you?"), "requestedSchema": schema})
    elif name == "visit":
        place = {"mode": "url", "url": "https://example.com/x", "elicitationId": t("v")}
        ask(number, "elicitation/create", {"message": t("Log in."), **place})
    elif name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": t("Why?")}}
        ask(number, "sampling/createMessage", {"messages": [message], "systemPrompt": t("You are."), "maxTokens": 9})
    else:
        reply(number, text("read"))


def burst(number, uri):
    """Notes before and after the answer, of what is listened to and of what is not, in one write."""
    log = lambda data: {"method": "notifications/message", "params": {"level": "info", "data": data}}
    messages = [
        log("first"),
        {"id": number, "result": {}},
        log("second"),
        {"method": "notifications/tools/list_changed"},
        log("third"),
        {"method": "notifications/prompts/list_changed"},
        {"method": "notifications/resources/updated", "params": {"uri": uri}},
        {"method": "notifications/vendor/weather", "params": {"sky": "clear"}},
        {"method": "notifications/tools/list_changed"},
        log("last"),
    ]
    sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
    sys.stdout.flush()
    sys.exit(0)


def logs(level):
    """A note at each level that is wanted, and the end."""
    for wanted in LEVELS[LEVELS.index(level) :]:
        note("notifications/message", level=wanted, data="told")
    sys.exit(0)


def listened(number, params):
    """A listen of the modern era."""
    named = {"_meta": {"io.modelcontextprotocol/subscriptionId": number}}
    note("notifications/subscriptions/acknowledged", notifications=params["notifications"], **named)
    logs(params["_meta"]["io.modelcontextprotocol/logLevel"])


def ask(number, method, params):
    WAITING[f"ask-{number}"] = number
    send({"id": f"ask-{number}", "method": method, "params": params})


def answer(number, method, params):
    if method == "initialize":
        abilities = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
        if manner == "bursts":
            abilities |= {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        if manner == "levels":
            abilities |= {"resources": {"subscribe": True}}
        if manner in ("hostile", "breaks"):
            abilities |= {"resources": {"subscribe": True}, "completions": {}}
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": abilities,
            "serverInfo": {"name": t("looks"), "version": t("1.0")},
            "instructions": t("Call any tool.\nThis is the second line of what to do, and it is longer than a narrow terminal."),
        }
        reply(number, result)
    elif method == "tools/list":
        reply(number, {"tools": TOOLS})
    elif method == "tools/call":
        call(number, params["name"], params.get("_meta", {}).get("progressToken"))
    elif method == "resources/list":
        page = {"uri": t("look://page"), "name": t("page"), "mimeType": t("text/markdown"), "size": 1234}
        reply(number, {"resources": [{**page, "description": t("The same page, as a resource.")}]})
    elif method == "resources/templates/list":
        reply(number, {"resourceTemplates": [{"uriTemplate": t("look://{name}"), "name": t("any"), "title": t("Anything")}]})
    elif method == "resources/read":
        reply(number, {"contents": [{"uri": t("look://page"), "mimeType": "text/markdown", "text": t(PAGE)}]})
    elif method == "prompts/list":
        arguments = [{"name": t("who"), "required": False}, {"name": "tone"}]
        reply(number, {"prompts": [{"name": "greet", "description": t("A greeting."), "arguments": arguments}]})
    elif method == "prompts/get":
        message = {"role": "user", "content": {"type": "text", "text": t("Say hello.")}}
        reply(number, {"description": t("x"), "messages": [message]})
    elif method == "completion/complete":
        reply(number, {"completion": {"values": [t("Ada"), t("Bob")], "total": 9}})
    elif method == "server/discover" and manner == "levels":
        offer = {"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {"subscribe": True}, "logging": {}}}
        reply(number, {"resultType": "complete", "cacheScope": "private", "ttlMs": 0, **offer})
    elif method == "logging/setLevel":
        LEVEL[0] = params["level"]
        reply(number, {})
    elif method == "subscriptions/listen":
        listened(number, params)
    elif method == "resources/subscribe" and manner == "levels":
        reply(number, {})
        logs(LEVEL[0])
    elif method == "resources/subscribe" and manner == "bursts":
        burst(number, params["uri"])
    elif method == "resources/subscribe":
        reply(number, {})
        note("notifications/message", level="error", logger=t("disk"), data=t("full"))
        note("notifications/resources/updated", uri=params["uri"])
        print(t("about to end"), file=sys.stderr, flush=True)
        sys.exit(7)
    else:
        reply(number, {})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer(message["id"], message["method"], message.get("params") or {})
    elif message.get("id") in WAITING:
        reply(WAITING.pop(message["id"]), text(json.dumps(message.get("result") or message.get("error"))))
