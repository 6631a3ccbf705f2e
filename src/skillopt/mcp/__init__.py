"""The MCP server: the commands of the command line as tools that an agent can call, and runs and skills as
resources.
"""

from __future__ import annotations

from skillopt.mcp.rights import RIGHTS
from skillopt.mcp.tools import SWITCHES, Toolbox, ToolSpec

__all__ = ["RIGHTS", "SWITCHES", "ToolSpec", "Toolbox"]
