"""Server on the Python SDK v2, which serves both eras.

What a tool needs from the client stands in its signature as `Resolve(...)`:
in the modern era the SDK answers `input_required` and resumes on the retry, in
the legacy era it calls the client.
"""

import socket
import sys
import warnings
from datetime import datetime, timezone
from typing import Annotated, Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPDeprecationWarning, MCPError
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    DeclinedElicitation,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
)
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

# Log notes are deprecated in the modern era; the tool `note` sends them on purpose.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

MODERN = "2026-07-28"

mcp = MCPServer("peer-python-v2", version="1.0.0", log_level="WARNING")


class Sum(BaseModel):
    sum: int


class Answer(BaseModel):
    answer: str


@mcp.tool(structured_output=False)
def echo(message: str) -> str:
    return message


@mcp.tool()
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@mcp.tool(structured_output=False)
async def slow(steps: int, delay_ms: int, ctx: Context) -> str:
    try:
        for step in range(1, steps + 1):
            await anyio.sleep(delay_ms / 1000)
            await ctx.report_progress(step, steps)
    except anyio.get_cancelled_exc_class():
        print("cancelled", file=sys.stderr, flush=True)
        raise
    return "done"


@mcp.tool(structured_output=False)
def fail(message: str) -> str:
    raise ToolError(message)


def put_question(question: str) -> Elicit[Answer]:
    return Elicit(question, Answer)


@mcp.tool(structured_output=False)
def ask(question: str, outcome: Annotated[ElicitationResult[Answer], Resolve(put_question)]) -> str:
    match outcome:
        case AcceptedElicitation(data=data):
            return data.answer
        case DeclinedElicitation():
            return "declined"
        case _:
            return "cancelled"


def put_prompt(prompt: str) -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return Sample([message], max_tokens=100)


@mcp.tool(structured_output=False)
def sample(prompt: str, result: Annotated[types.CreateMessageResult, Resolve(put_prompt)]) -> str:
    return result.content.text


def want_roots() -> ListRoots:
    return ListRoots()


@mcp.tool(structured_output=False)
def roots(listed: Annotated[types.ListRootsResult, Resolve(want_roots)]) -> str:
    return "\n".join(str(root.uri) for root in listed.roots)


@mcp.tool(structured_output=False)
async def note(level: types.LoggingLevel, message: str, ctx: Context) -> str:
    await ctx.log(level, message, logger_name="demo")
    return "noted"


@mcp.tool(structured_output=False)
async def change(what: str, ctx: Context) -> str:
    # The SDK has one way to tell listeners and another to tell legacy clients.
    modern = (ctx.protocol_version or "") >= MODERN
    match what:
        case "tools":
            await (ctx.notify_tools_changed() if modern else ctx.session.send_tool_list_changed())
        case "resources":
            await (ctx.notify_resources_changed() if modern else ctx.session.send_resource_list_changed())
        case "prompts":
            await (ctx.notify_prompts_changed() if modern else ctx.session.send_prompt_list_changed())
        case uri if ":" in uri:
            await (ctx.notify_resource_updated(uri) if modern else ctx.session.send_resource_updated(uri))
    return "changed"


@mcp.resource("demo://clock", mime_type="text/plain")
def clock() -> str:
    return datetime.now(timezone.utc).isoformat()


@mcp.resource("demo://file/{name}", mime_type="text/plain")
def file(name: str) -> str:
    if name == "broken":
        raise MCPError(7001, "the file is broken", {"part": "shaft", "tries": 3})
    return f"file {name}"


@mcp.prompt()
def greet(name: str) -> str:
    return f"Please greet {name}."


@mcp.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion | None:
    if isinstance(ref, types.PromptReference) and ref.name == "greet":
        names = ["Ada", "Alan", "Grace"]
        return types.Completion(values=[name for name in names if name.startswith(argument.value)])
    return None


def complete_the_rest() -> None:
    """What the SDK's server can do in the legacy era, and `MCPServer` has no name for."""
    server = mcp._lowlevel_server

    async def subscribe(context: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, subscribe)

    # Changes of lists are announced only when told to.
    announced = server.get_capabilities

    def announce(_: Any = None, *rest: Any, **more: Any) -> types.ServerCapabilities:
        return announced(NotificationOptions(True, True, True), *rest, **more)

    server.get_capabilities = announce


def main() -> None:
    """Serves over stdio, or over what the first argument says; where it listens goes to stdout."""
    complete_the_rest()
    apps = {"--http": ("/mcp", mcp.streamable_http_app), "--sse": ("/sse", mcp.sse_app)}
    if len(sys.argv) < 2:
        return mcp.run("stdio")
    path, app = apps[sys.argv[1]]
    # Whoever connects before the server runs waits in the queue of the socket.
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app(), log_level="warning"))
    anyio.run(lambda: server.serve(sockets=[listener]))


main()
