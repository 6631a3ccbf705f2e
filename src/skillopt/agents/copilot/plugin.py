"""GitHub Copilot: MCP server and skill for the CLI; in a project, server for VS Code and instructions."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes.actions import JsonEntry, OwnFile, TextLines
from skillopt.plugins.kit import SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | JsonEntry | TextLines]:
    if place.project is None:
        home = place.folder("COPILOT_HOME", ".copilot")
        server = {"type": "local", **kit.server, "tools": ["*"]}
        entry = JsonEntry(path=str(home / "mcp-config.json"), keys=("mcpServers", SKILL), value=server)
        return [entry, *kit.skill(home / "skills")]
    settings, server = place.project / ".vscode" / "mcp.json", {"type": "stdio", **kit.server}
    return [
        JsonEntry(path=str(settings), keys=("servers", SKILL), value=server),
        kit.snippet(place.project / ".github" / "copilot-instructions.md"),
    ]


PLUGIN = AgentPlugin(
    gets="Copilot CLI: MCP server, skill; a project: MCP server for VS Code, instructions",
    scopes=("user", "project"),
    actions=_actions,
    seen="Copilot CLI 1.0.102 (for the user)",
    then=(
        "Start Copilot anew; `copilot mcp list` and `copilot skill list` show skillopt. In VS Code, start the"
        " server in .vscode/mcp.json."
    ),
)
