"""The script that every Python client runs against a server, check by check.

A client hands in a `peer`: its SDK behind a handful of verbs. Everything that
says what a right answer is stands here, so that all Python clients ask the
same of a server. Twin of `script.mjs`; the checks and their order match.
"""

import argparse
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio

CHECK_TIMEOUT_S = 10
LARGE_BYTES = 1 << 20

# What a gateway puts before the names of the server that is meant, for tools and prompts; nothing without one.
PREFIX = os.environ.get("PEER_PREFIX", "")

# What servers call things.
DEMO = {
    "tools": ["echo", "add", "slow"],
    "structured": {"call": ("add", {"a": 2, "b": 3}), "member": ("sum", 5)},
    "fail": {"call": ("fail", {"message": "out of luck"}), "says": "out of luck"},
    "slow": {"call": lambda steps, delay_ms: ("slow", {"steps": steps, "delay_ms": delay_ms}), "says": "done"},
    "ask": ("ask", {"question": "favourite colour?"}),
    "sample": ("sample", {"prompt": "say something"}),
    "roots": ("roots", {}),
    "read": {
        "listed": "demo://clock",
        "template": "demo://file/{name}",
        "both": ("demo://clock", "demo://file/readme"),
    },
    "prompt": {"name": "greet", "args": {"name": "Ada"}, "says": "Ada"},
    "complete": {"name": "greet", "argument": {"name": "name", "value": "A"}},
    "log": {"call": ("note", {"level": "warning", "message": "hi"}), "level": "warning", "says": "hi"},
    "changed": ("change", {"what": "tools"}),
    "updated": {"uri": "demo://clock", "call": ("change", {"what": "demo://clock"})},
    "fault": {"uri": "demo://file/broken", "code": 7001, "data": {"part": "shaft", "tries": 3}},
}

# The reference server has names of its own, and no tool that changes a list. It logs at random levels.
DYNAMIC = "demo://resource/dynamic/text"
DOCUMENT = "demo://resource/static/document/architecture.md"
EVERYTHING = {
    "tools": ["echo", "get-sum", "trigger-long-running-operation"],
    "structured": {"call": ("get-structured-content", {"location": "New York"}), "member": ("temperature", 33)},
    "fail": {"call": ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}), "says": "resourceId"},
    "slow": {
        "call": lambda steps, delay_ms: (
            "trigger-long-running-operation",
            {"steps": steps, "duration": steps * delay_ms / 1000},
        ),
        "says": "completed",
    },
    "ask": ("trigger-elicitation-request", {}),
    "sample": ("trigger-sampling-request", {"prompt": "say something"}),
    "roots": ("get-roots-list", {}),
    "read": {"listed": DOCUMENT, "template": DYNAMIC + "/{resourceId}", "both": (DOCUMENT, DYNAMIC + "/1")},
    "prompt": {"name": "args-prompt", "args": {"city": "Ada"}, "says": "Ada"},
    "complete": {"name": "completable-prompt", "argument": {"name": "department", "value": "E"}},
    "log": {"call": ("toggle-simulated-logging", {}), "level": None, "says": ""},
    "changed": None,
    "updated": {"uri": DOCUMENT, "call": ("toggle-subscriber-updates", {})},
    "fault": {"uri": DYNAMIC + "/0", "code": -32603, "data": None},
}


class Skip(Exception):
    """Raised by a peer for what its SDK cannot do in the negotiated era."""


@dataclass
class Result:
    """A tool result, the same whatever the SDK calls its members."""

    text: str
    is_error: bool
    structured: Any


class Notes:
    """What the server sends unasked, kept so that a check may wait for it."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[anyio.Event, list[Any]]] = {}

    def arrived(self, kind: str, note: Any) -> None:
        if kind in self._waiting:
            event, box = self._waiting.pop(kind)
            box.append(note)
            event.set()

    def next(self, kind: str) -> Callable[[], Awaitable[Any]]:
        event, box = self._waiting[kind] = (anyio.Event(), [])

        async def wait() -> Any:
            await event.wait()
            return box[0]

        return wait


def parse_args(eras: list[str]) -> tuple[str, list[str]]:
    """Reads `[--era legacy|modern|auto] -- command args...`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=eras, default=eras[0])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("give the server command after --")
    return args.era, command


async def run(peer: Any) -> int:
    """Runs all checks and gives the exit code."""
    tally = {True: 0, False: 0, None: 0}
    under_way: str | None = "connect"

    def report(name: str, outcome: dict[str, Any]) -> None:
        tally[outcome["ok"]] += 1
        print(json.dumps({"check": name, **outcome}), flush=True)

    def finish() -> None:
        counts = {"passed": tally[True], "failed": tally[False], "skipped": tally[None]}
        print(json.dumps({"check": "end", **counts}), flush=True)

    try:
        async with AsyncExitStack() as stack:
            # No timeout of ours: the connection outlives this check, and a scope must not close before
            # what was opened inside it. The SDKs bound their own handshake.
            connected = await attempt(lambda: peer.connect(stack), None)
            report("connect", connected)
            peer.terms = EVERYTHING if str(connected.get("server")).endswith("everything") else DEMO
            if connected["ok"]:
                for check in CHECKS:
                    under_way = check.__name__.removeprefix("check_")
                    report(under_way, await attempt(lambda: check(peer), CHECK_TIMEOUT_S))
            under_way = None
            finish()
    except ExceptionGroup as broken:
        # A transport whose task fails cancels all that runs inside it, the check under way too.
        if under_way is None:
            raise
        report(under_way, {"ok": False, "why": reason(broken)})
        finish()
    return 0 if tally[False] == 0 else 1


async def attempt(work: Callable[[], Awaitable[dict | None]], timeout_s: int | None) -> dict[str, Any]:
    try:
        with anyio.fail_after(timeout_s) if timeout_s else nullcontext():
            return {"ok": True, **(await work() or {})}
    except Skip as skip:
        return {"ok": None, "why": str(skip)}
    except TimeoutError:
        return {"ok": False, "why": f"no answer within {timeout_s} s"}
    except Exception as error:
        return {"ok": False, "why": reason(error)}


def reason(error: Exception) -> str:
    """The error in one line; of a group of one, that one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def check_list(peer: Any) -> dict:
    names, pages = [], 0
    cursor = None
    while True:
        page, cursor = await peer.list_tools(cursor)
        names += own(page)
        pages += 1
        if cursor is None:
            break
    # A client that opens no session was not told who the server is.
    if EVERYTHING["tools"][1] in names:
        peer.terms = EVERYTHING
    for name in peer.terms["tools"]:
        expect(name in names, f"tool {name} is not listed")
    expect(len(set(names)) == len(names), "a tool is listed twice")
    return {"count": len(names), "pages": pages}


async def check_call(peer: Any) -> None:
    result = await called(peer, ("echo", {"message": "hello"}))
    expect("hello" in result.text, f"echo answered {result}")


async def check_structured(peer: Any) -> None:
    terms = peer.terms["structured"]
    member, value = terms["member"]
    result = await called(peer, terms["call"])
    expect((result.structured or {}).get(member) == value, f"{terms['call'][0]} answered {result}")
    expect(str(value) in result.text, f"{terms['call'][0]} has no text beside its structure: {result}")


async def check_tool_error(peer: Any) -> None:
    terms = peer.terms["fail"]
    result = await called(peer, terms["call"])
    expect(result.is_error, f"{terms['call'][0]} did not set isError: {result}")
    expect(terms["says"] in result.text, f"{terms['call'][0]} lost its message: {result}")


async def check_unknown_tool(peer: Any) -> dict:
    try:
        result = await called(peer, ("no_such_tool", {}))
    except peer.Error as error:
        code = error.error.code
        expect(code == -32602, f"unknown tool failed with {code}: {error}")
        return {"as": "error", "code": code}
    expect(result.is_error, f"unknown tool answered {result}")
    return {"as": "isError"}


async def check_progress(peer: Any) -> dict:
    seen: list[float] = []

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)

    terms = peer.terms["slow"]
    result = await called(peer, terms["call"](3, 10), on_progress)
    expect(terms["says"] in result.text, f"slow answered {result}")
    expect(len(seen) == 3, f"expected 3 progress notes, got {seen}")
    expect(sorted(set(seen)) == seen, f"not increasing: {seen}")
    return {"progress": seen}


async def check_cancel(peer: Any) -> dict | None:
    facts = await peer.cancel_at_progress(*within(peer.terms["slow"]["call"](1000, 20)))
    result = await called(peer, ("echo", {"message": "still here"}))
    expect("still here" in result.text, f"echo after cancel answered {result}")
    return facts


async def check_elicit(peer: Any) -> None:
    result = await called(peer, peer.terms["ask"])
    expect("blue" in result.text, f"ask answered {result}")


async def check_sample(peer: Any) -> None:
    result = await called(peer, peer.terms["sample"])
    expect("sampled" in result.text, f"sample answered {result}")


async def check_roots(peer: Any) -> None:
    result = await called(peer, peer.terms["roots"])
    expect("file:///workspace" in result.text, f"roots answered {result}")


async def check_read(peer: Any) -> None:
    terms = peer.terms["read"]
    uris = [str(item.uri) for item in (await peer.client.list_resources()).resources]
    expect(terms["listed"] in uris, f"{terms['listed']} is not among {uris}")
    templates = await peer.list_templates()
    expect(terms["template"] in templates, f"{terms['template']} is not among {templates}")
    for uri in terms["both"]:
        contents = (await peer.read(uri)).contents
        expect(str(contents[0].uri) == uri and contents[0].text, f"{uri} read as {contents}")


async def check_prompt(peer: Any) -> None:
    terms = peer.terms["prompt"]
    names = own([item.name for item in (await peer.client.list_prompts()).prompts])
    expect(terms["name"] in names, f"prompt {terms['name']} is not among {names}")
    messages = (await peer.client.get_prompt(PREFIX + terms["name"], terms["args"])).messages
    expect(any(terms["says"] in message.content.text for message in messages), f"{terms['name']} gave {messages}")


async def check_complete(peer: Any) -> dict:
    terms = peer.terms["complete"]
    ref = peer.PromptReference(type="ref/prompt", name=PREFIX + terms["name"])
    completion = (await peer.client.complete(ref, terms["argument"])).completion
    expect(completion.values, f"no completion for the prefix {terms['argument']['value']}")
    return {"values": completion.values}


async def check_log(peer: Any) -> dict:
    terms = peer.terms["log"]
    note = peer.notes.next("log")
    how = await peer.call_logged(*within(terms["call"]))
    params = await note()
    expect(terms["level"] in (None, params.level) and terms["says"] in str(params.data), f"log note was {params}")
    return {"level": how}


async def check_changed(peer: Any) -> None:
    if peer.terms["changed"] is None:
        raise Skip("server: no tool changes its lists")
    if PREFIX:
        raise Skip("gateway: a list is told as changed when it is another, and here none is")
    async with peer.listening() as next_change:
        await called(peer, peer.terms["changed"])
        await next_change()


async def check_updated(peer: Any) -> None:
    terms = peer.terms["updated"]
    async with peer.following(terms["uri"]) as next_update:
        await called(peer, terms["call"])
        told = str((await next_update()).uri)
        expect(told == terms["uri"], f"told of {told}")


async def check_large(peer: Any) -> None:
    message = "0123456789abcdef" * (LARGE_BYTES // 16)
    text = (await called(peer, ("echo", {"message": message}))).text
    expect(text.endswith(message), f"of {len(message)} characters {len(text)} came back, or others")


async def check_fault(peer: Any) -> None:
    terms = peer.terms["fault"]
    try:
        contents = (await peer.read(terms["uri"])).contents
    except peer.Error as error:
        code, data = error.error.code, error.error.data
        expect(code == terms["code"], f"{terms['uri']} failed with {code}: {error}")
        expect(data == terms["data"], f"{terms['uri']} failed with data {data}")
        return
    expect(False, f"{terms['uri']} read as {contents}")


async def check_ping(peer: Any) -> None:
    await peer.ping()


CHECKS = [
    check_list, check_call, check_structured, check_tool_error,
    check_unknown_tool, check_progress, check_cancel, check_elicit,
    check_sample, check_roots, check_read, check_prompt,
    check_complete, check_log, check_changed, check_updated,
    check_fault, check_ping, check_large,
]  # fmt: skip


async def called(peer: Any, call: tuple[str, dict], on_progress: Any = None) -> Result:
    return await peer.call(*within(call), on_progress)


def within(call: tuple[str, dict]) -> tuple[str, dict]:
    """A call, by the name that the tool has here."""
    name, args = call
    return PREFIX + name, args


def own(names: list[str]) -> list[str]:
    """The names that are the server's own."""
    return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]


def expect(holds: Any, why: str) -> None:
    if not holds:
        raise AssertionError(why)


def fill(properties: dict[str, Any]) -> dict[str, str]:
    """What the clients fill into a form."""
    field = next((name for name in ("answer", "name") if name in properties), None)
    expect(field, "elicitation form has no field `answer`")
    return {field: "blue"}
