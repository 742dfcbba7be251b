"""Client on the Python SDK v1, which knows the legacy era only."""

import os
import pathlib
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.websocket import websocket_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from script import CHECK_TIMEOUT_S, Notes, Result, expect, fill, parse_args, run  # noqa: E402


class Peer:
    Error = McpError
    PromptReference = types.PromptReference

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.notes = Notes()

    def reach(self) -> Any:
        """Starts a command, or reaches an address: by WebSocket or old HTTP+SSE if it says so."""
        first, *rest = self.command
        if first.startswith("ws://"):
            return websocket_client(first)
        if not first.startswith("http"):
            return stdio_client(StdioServerParameters(command=first, args=rest, env=dict(os.environ)))
        return sse_client(first) if first.endswith("/sse") else streamable_http_client(first)

    async def connect(self, stack: AsyncExitStack) -> dict:
        read, write, *_ = await stack.enter_async_context(self.reach())
        session = ClientSession(
            read,
            write,
            read_timeout_seconds=timedelta(seconds=CHECK_TIMEOUT_S),
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=list_roots,
            logging_callback=self.on_log,
            message_handler=self.on_message,
        )
        self.client = await stack.enter_async_context(session)
        hello = await self.client.initialize()
        return {"version": hello.protocolVersion, "era": "legacy", "server": hello.serverInfo.name}

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.notes.arrived("log", params)

    async def on_message(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            match message.root:
                case types.ToolListChangedNotification():
                    self.notes.arrived("tools", message.root)
                case types.ResourceUpdatedNotification(params=params):
                    self.notes.arrived("updated", params)
                case types.ProgressNotification(params=params):
                    self.notes.arrived("progress", params)

    async def list_tools(self, cursor: str | None) -> tuple[list[str], str | None]:
        page = await self.client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        return [tool.name for tool in page.tools], page.nextCursor

    async def call(self, name: str, args: dict, on_progress: Any = None) -> Result:
        result = await self.client.call_tool(name, args, progress_callback=on_progress)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        return Result(text, result.isError, result.structuredContent)

    async def cancel_at_progress(self, name: str, args: dict) -> dict:
        """Cancels by hand: this SDK sends no note when a caller gives up.

        Its progress token is the id of the call, which is how the id is learnt.
        """
        progress = self.notes.next("progress")
        outcome: list[Any] = []
        ended = anyio.Event()

        async def call() -> None:
            try:
                outcome.append(await self.call(name, args, ignore_progress))
            except McpError as error:
                outcome.append(error)
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request_id = (await progress()).progressToken
            params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
            await self.client.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
            # Servers may answer a cancelled call with an error or, as the specification has it, not at all.
            with anyio.move_on_after(0.5):
                await ended.wait()
            tasks.cancel_scope.cancel()
        expect(not any(isinstance(it, Result) for it in outcome), f"cancelled call still answered {outcome}")
        return {"server_answered": str(outcome[0].error.code) if outcome else "nothing"}

    async def list_templates(self) -> list[str]:
        return [item.uriTemplate for item in (await self.client.list_resource_templates()).resourceTemplates]

    async def read(self, uri: str) -> types.ReadResourceResult:
        return await self.client.read_resource(uri)

    async def call_logged(self, name: str, args: dict) -> str:
        offered = self.client.get_server_capabilities().logging is not None
        if offered:
            await self.client.set_logging_level("debug")
        await self.call(name, args)
        return "set" if offered else "not offered"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        yield self.notes.next("tools")

    @asynccontextmanager
    async def following(self, uri: str) -> AsyncIterator[Any]:
        await self.client.subscribe_resource(uri)
        yield self.notes.next("updated")
        await self.client.unsubscribe_resource(uri)

    async def ping(self) -> None:
        await self.client.send_ping()


async def ignore_progress(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress notes; `on_message` sees them with their token."""


async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=fill(params.requestedSchema["properties"]))


async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", model="peer", content=content)


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///workspace", name="workspace")])


sys.exit(anyio.run(run, Peer(parse_args(["legacy"])[1])))
