"""Client on the Python SDK v2, which knows both eras.

`modern` adopts 2026-07-28 without asking, so that the first call is the first
thing a server sees; `auto` sends server/discover and falls back to initialize.
"""

import os
import pathlib
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPDeprecationWarning, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from script import CHECK_TIMEOUT_S, Notes, Result, Skip, expect, fill, parse_args, run  # noqa: E402

# Ping and log levels are deprecated in the modern era; the legacy checks use them on purpose.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

MODERN = "2026-07-28"


def reach(command: list[str]) -> Any:
    """Starts a command, or reaches an address: by old HTTP+SSE if its path says so."""
    first, *rest = command
    if not first.startswith("http"):
        return StdioServerParameters(command=first, args=rest, env=dict(os.environ))
    return sse_client(first) if first.endswith("/sse") else first


class Peer:
    Error = MCPError
    PromptReference = types.PromptReference

    def __init__(self, era: str, command: list[str]) -> None:
        self.notes = Notes()
        self.client = Client(
            reach(command),
            mode=MODERN if era == "modern" else era,
            read_timeout_seconds=CHECK_TIMEOUT_S,
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=list_roots,
            logging_callback=self.on_log,
            log_level="debug",
            message_handler=self.on_message,
        )

    @property
    def modern(self) -> bool:
        return self.client.protocol_version >= MODERN

    async def connect(self, stack: AsyncExitStack) -> dict:
        await stack.enter_async_context(self.client)
        info = self.client.server_info
        return {
            "version": self.client.protocol_version,
            "era": "modern" if self.modern else "legacy",
            "server": info.name if info else None,
        }

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.notes.arrived("log", params)

    async def on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.notes.arrived("tools", message)
        if isinstance(message, types.ResourceUpdatedNotification):
            self.notes.arrived("updated", message.params)

    async def list_tools(self, cursor: str | None) -> tuple[list[str], str | None]:
        page = await self.client.list_tools(cursor=cursor)
        return [tool.name for tool in page.tools], page.next_cursor

    async def call(self, name: str, args: dict, on_progress: Any = None) -> Result:
        result = await self.client.call_tool(name, args, progress_callback=on_progress)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        return Result(text, bool(result.is_error), result.structured_content)

    async def cancel_at_progress(self, name: str, args: dict) -> None:
        with anyio.CancelScope() as scope:

            async def give_up(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await self.call(name, args, give_up)
        expect(scope.cancelled_caught, "cancelled call still answered")

    async def list_templates(self) -> list[str]:
        return [item.uri_template for item in (await self.client.list_resource_templates()).resource_templates]

    async def read(self, uri: str) -> types.ReadResourceResult:
        return await self.client.read_resource(uri)

    async def call_logged(self, name: str, args: dict) -> str:
        offered = not self.modern and self.client.server_capabilities.logging is not None
        if offered:
            await self.client.set_logging_level("debug")
        await self.call(name, args)
        if self.modern:
            return "in the call"
        return "set" if offered else "not offered"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        if not self.modern:
            yield self.notes.next("tools")
            return
        async with self.client.listen(tools_list_changed=True) as subscription:
            yield subscription.__anext__

    @asynccontextmanager
    async def following(self, uri: str) -> AsyncIterator[Any]:
        if self.modern:
            async with self.client.listen(resource_subscriptions=[uri]) as subscription:
                yield subscription.__anext__
            return
        await self.client.subscribe_resource(uri)
        yield self.notes.next("updated")
        await self.client.unsubscribe_resource(uri)

    async def ping(self) -> None:
        if self.modern:
            raise Skip("sdk: ping is not part of 2026-07-28")
        await self.client.send_ping()


async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=fill(params.requested_schema["properties"]))


async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", model="peer", content=content)


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///workspace", name="workspace")])


sys.exit(anyio.run(run, Peer(*parse_args(["auto", "legacy", "modern"]))))
