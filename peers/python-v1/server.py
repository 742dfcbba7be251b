"""Server on the Python SDK v1, which knows the legacy era only."""

import socket
import sys
from datetime import datetime, timezone
from typing import Any

import anyio
import uvicorn
from mcp import McpError, types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.lowlevel import NotificationOptions
from mcp.server.websocket import websocket_server
from pydantic import AnyUrl, BaseModel
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

mcp = FastMCP("peer-python-v1", log_level="WARNING")


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


@mcp.tool(structured_output=False)
async def ask(question: str, ctx: Context) -> str:
    outcome = await ctx.elicit(question, Answer)
    match outcome.action:
        case "accept":
            return outcome.data.answer
        case "decline":
            return "declined"
        case "cancel":
            return "cancelled"


@mcp.tool(structured_output=False)
async def sample(prompt: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    result = await ctx.session.create_message([message], max_tokens=100)
    return result.content.text


@mcp.tool(structured_output=False)
async def roots(ctx: Context) -> str:
    return "\n".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@mcp.tool(structured_output=False)
async def note(level: types.LoggingLevel, message: str, ctx: Context) -> str:
    # The context's own `log` takes four of the eight levels; its session takes all.
    await ctx.session.send_log_message(level, message, logger="demo", related_request_id=ctx.request_id)
    return "noted"


@mcp.tool(structured_output=False)
async def change(what: str, ctx: Context) -> str:
    match what:
        case "tools":
            await ctx.session.send_tool_list_changed()
        case "resources":
            await ctx.session.send_resource_list_changed()
        case "prompts":
            await ctx.session.send_prompt_list_changed()
        case uri if ":" in uri:
            await ctx.session.send_resource_updated(AnyUrl(uri))
    return "changed"


@mcp.resource("demo://clock", mime_type="text/plain")
def clock() -> str:
    return datetime.now(timezone.utc).isoformat()


@mcp.resource("demo://file/{name}", mime_type="text/plain")
def file(name: str) -> str:
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
    """What the SDK's server can do, and `FastMCP` has no name for."""
    server = mcp._mcp_server
    handlers = server.request_handlers

    async def subscribe(request: Any) -> types.ServerResult:
        return types.ServerResult(types.EmptyResult())

    handlers[types.SubscribeRequest] = handlers[types.UnsubscribeRequest] = subscribe

    # Errors of resources lose their code on the way through `FastMCP`.
    read = handlers[types.ReadResourceRequest]

    async def read_or_break(request: types.ReadResourceRequest) -> types.ServerResult:
        if str(request.params.uri) == "demo://file/broken":
            data = {"part": "shaft", "tries": 3}
            raise McpError(types.ErrorData(code=7001, message="the file is broken", data=data))
        return await read(request)

    handlers[types.ReadResourceRequest] = read_or_break

    # It never announces subscriptions, and changes of lists only when told to.
    announced = server.get_capabilities

    def announce(_: NotificationOptions, experimental: dict) -> types.ServerCapabilities:
        capabilities = announced(NotificationOptions(True, True, True), experimental)
        capabilities.resources.subscribe = True
        return capabilities

    server.get_capabilities = announce


def socket_app() -> Starlette:
    """What the SDK's server can do, and `FastMCP` has no app for."""

    async def serve(ws: WebSocket) -> None:
        server = mcp._mcp_server
        async with websocket_server(ws.scope, ws.receive, ws.send) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    return Starlette(routes=[WebSocketRoute("/ws", serve)])


def main() -> None:
    """Serves over stdio, or over what the first argument says; where it listens goes to stdout."""
    complete_the_rest()
    apps = {
        "--http": ("http", "/mcp", mcp.streamable_http_app),
        "--sse": ("http", "/sse", mcp.sse_app),
        "--ws": ("ws", "/ws", socket_app),
    }
    if len(sys.argv) < 2:
        return mcp.run("stdio")
    scheme, path, app = apps[sys.argv[1]]
    # Whoever connects before the server runs waits in the queue of the socket.
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app(), log_level="warning"))
    anyio.run(lambda: server.serve(sockets=[listener]))


main()
