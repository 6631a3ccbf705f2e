"""The MCP server: the commands of the command line as tools that an agent can call, and runs and skills as
resources.
"""

from __future__ import annotations

from skillopt.mcp_server.rights import RIGHTS
from skillopt.mcp_server.tools import SWITCHES, ToolSpec, tool_specs

__all__ = ["RIGHTS", "SWITCHES", "ToolSpec", "tool_specs"]
