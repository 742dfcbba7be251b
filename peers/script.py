"""The script that every Python client runs against a server, check by check.

A client hands in a `peer`: its SDK behind a handful of verbs. Everything that
says what a right answer is stands here, so that all Python clients ask the
same of a server. Twin of `script.mjs`; the checks and their order match.
"""

import argparse
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio

CHECK_TIMEOUT_S = 10


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

    def report(name: str, outcome: dict[str, Any]) -> None:
        tally[outcome["ok"]] += 1
        print(json.dumps({"check": name, **outcome}), flush=True)

    async with AsyncExitStack() as stack:
        # No timeout of ours: the connection outlives this check, and a scope must not close before
        # what was opened inside it. The SDKs bound their own handshake.
        connected = await attempt(lambda: peer.connect(stack), None)
        report("connect", connected)
        if connected["ok"]:
            for check in CHECKS:
                report(check.__name__.removeprefix("check_"), await attempt(lambda: check(peer), CHECK_TIMEOUT_S))
        counts = {"passed": tally[True], "failed": tally[False], "skipped": tally[None]}
        print(json.dumps({"check": "end", **counts}), flush=True)
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
        return {"ok": False, "why": f"{type(error).__name__}: {error}"}


async def check_list(peer: Any) -> dict:
    names, pages = [], 0
    cursor = None
    while True:
        page, cursor = await peer.list_tools(cursor)
        names += page
        pages += 1
        if cursor is None:
            break
    for name in ("echo", "add", "slow"):
        expect(name in names, f"tool {name} is not listed")
    expect(len(set(names)) == len(names), "a tool is listed twice")
    return {"count": len(names), "pages": pages}


async def check_call(peer: Any) -> None:
    result = await peer.call("echo", {"message": "hello"})
    expect("hello" in result.text, f"echo answered {result}")


async def check_structured(peer: Any) -> None:
    result = await peer.call("add", {"a": 2, "b": 3})
    expect((result.structured or {}).get("sum") == 5, f"add answered {result}")
    expect("5" in result.text, f"add has no text beside its structure: {result}")


async def check_tool_error(peer: Any) -> None:
    result = await peer.call("fail", {"message": "out of luck"})
    expect(result.is_error, f"fail did not set isError: {result}")
    expect("out of luck" in result.text, f"fail lost its message: {result}")


async def check_unknown_tool(peer: Any) -> dict:
    try:
        result = await peer.call("no_such_tool", {})
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

    result = await peer.call("slow", {"steps": 3, "delay_ms": 10}, on_progress)
    expect("done" in result.text, f"slow answered {result}")
    expect(len(seen) == 3, f"expected 3 progress notes, got {seen}")
    expect(sorted(set(seen)) == seen, f"not increasing: {seen}")
    return {"progress": seen}


async def check_cancel(peer: Any) -> dict | None:
    facts = await peer.cancel_at_progress("slow", {"steps": 1000, "delay_ms": 20})
    result = await peer.call("echo", {"message": "still here"})
    expect("still here" in result.text, f"echo after cancel answered {result}")
    return facts


async def check_elicit(peer: Any) -> None:
    result = await peer.call("ask", {"question": "favourite colour?"})
    expect("blue" in result.text, f"ask answered {result}")


async def check_sample(peer: Any) -> None:
    result = await peer.call("sample", {"prompt": "say something"})
    expect("sampled" in result.text, f"sample answered {result}")


async def check_roots(peer: Any) -> None:
    result = await peer.call("roots", {})
    expect("file:///workspace" in result.text, f"roots answered {result}")


async def check_read(peer: Any) -> None:
    uris = [str(item.uri) for item in (await peer.client.list_resources()).resources]
    expect("demo://clock" in uris, f"demo://clock is not among {uris}")
    templates = await peer.list_templates()
    expect("demo://file/{name}" in templates, f"demo://file/{{name}} is not among {templates}")
    for uri in ("demo://clock", "demo://file/readme"):
        contents = (await peer.read(uri)).contents
        expect(str(contents[0].uri) == uri and contents[0].text, f"{uri} read as {contents}")


async def check_prompt(peer: Any) -> None:
    names = [item.name for item in (await peer.client.list_prompts()).prompts]
    expect("greet" in names, f"prompt greet is not among {names}")
    messages = (await peer.client.get_prompt("greet", {"name": "Ada"})).messages
    expect(any("Ada" in message.content.text for message in messages), f"greet gave {messages}")


async def check_complete(peer: Any) -> dict:
    ref = peer.PromptReference(type="ref/prompt", name="greet")
    completion = (await peer.client.complete(ref, {"name": "name", "value": "A"})).completion
    expect(completion.values, "no completion for the prefix A")
    return {"values": completion.values}


async def check_log(peer: Any) -> dict:
    note = peer.notes.next("log")
    level = await peer.call_logged("note", {"level": "warning", "message": "hi"})
    params = await note()
    expect(params.level == "warning" and "hi" in str(params.data), f"log note was {params}")
    return {"level": level}


async def check_changed(peer: Any) -> None:
    async with peer.listening() as next_change:
        await peer.call("change", {"what": "tools"})
        await next_change()


async def check_ping(peer: Any) -> None:
    await peer.ping()


CHECKS = [
    check_list, check_call, check_structured, check_tool_error,
    check_unknown_tool, check_progress, check_cancel, check_elicit,
    check_sample, check_roots, check_read, check_prompt,
    check_complete, check_log, check_changed, check_ping,
]  # fmt: skip


def expect(holds: Any, why: str) -> None:
    if not holds:
        raise AssertionError(why)
