"""The MCP server: typed tools that an agent can call, runs and skills as resources."""

from __future__ import annotations

from skillopt.mcp.tools import SWITCHES, TOOLS

__all__ = ["SWITCHES", "TOOLS"]
