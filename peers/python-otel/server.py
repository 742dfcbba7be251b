"""A server on the Python SDK v2, over stdio, whose calls are parts of traces."""

from mcp.server.mcpserver import MCPServer
from telemetry import set_up

mcp = MCPServer("peer-python-otel", version="1.0.0", log_level="WARNING")


@mcp.tool(structured_output=False)
def echo(message: str) -> str:
    return message


if __name__ == "__main__":
    set_up("server")
    mcp.run()
