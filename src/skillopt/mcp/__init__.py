"""The MCP server: commands as tools that an agent can call, runs and skills as resources."""

from __future__ import annotations

from skillopt.mcp.rights import RIGHTS
from skillopt.mcp.tools import SWITCHES, Toolbox, ToolSpec

__all__ = ["RIGHTS", "SWITCHES", "ToolSpec", "Toolbox"]
