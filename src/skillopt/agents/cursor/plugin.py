"""Cursor: a local plugin with command and skill, or the same as files of a project; and the MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.changes.actions import JsonEntry, OwnFile
from skillopt.plugins.kit import SHARED, SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace

COMMANDS = ("skillopt-sleep", "skillopt-train")

_TEXTS = Path(__file__).parent / "texts"


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | JsonEntry]:
    cursor = place.root / ".cursor"
    kit = replace(kit, own={"arguments": "what the person wrote after the command"})
    folder = cursor if place.project is not None else cursor / "plugins" / "local" / SKILL
    files = [
        *(
            kit.file(folder / "commands" / f"{name}.md", SHARED / "commands" / f"{name}.md")
            for name in COMMANDS
        ),
        *kit.skill(folder / "skills"),
    ]
    if place.project is None:
        files.append(
            kit.file(folder / ".cursor-plugin" / "plugin.json", _TEXTS / ".cursor-plugin" / "plugin.json")
        )
    return [JsonEntry(path=str(cursor / "mcp.json"), keys=("mcpServers", SKILL), value=kit.server), *files]


PLUGIN = AgentPlugin(
    gets="a local plugin (commands, skill), MCP server",
    scopes=("user", "project"),
    actions=_actions,
    seen="",
    then="Reload Cursor's window; Settings lists the plugin and the MCP server.",
)
