"""A client on the Python SDK v2 that calls one tool as part of a trace of its own: `client.py --era ERA URL TOOL JSON`."""

import json
import sys

import anyio
from mcp import Client
from opentelemetry import trace
from telemetry import set_up

MODERN = "2026-07-28"


async def main(era: str, url: str, tool: str, arguments: dict) -> None:
    provider = set_up("client")
    mode = MODERN if era == "modern" else era
    async with Client(url, mode=mode) as client:
        with trace.get_tracer("client").start_as_current_span("work") as span:
            result = await client.call_tool(tool, arguments)
            place = format(span.get_span_context().trace_id, "032x")
    provider.shutdown()
    print(json.dumps({"trace": place, "text": result.content[0].text, "failed": bool(result.is_error)}))


if __name__ == "__main__":
    _, era, url, tool, arguments = sys.argv[1:6]
    anyio.run(main, era, url, tool, json.loads(arguments))
