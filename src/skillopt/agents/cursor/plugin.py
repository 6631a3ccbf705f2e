"""Cursor: a local plugin with command and skill, or the same as files of a project; and the MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.changes.actions import JsonEntry, OwnFile
from skillopt.plugins.kit import SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace

COMMANDS = ("skillopt-sleep", "skillopt-train")

_TEXTS = Path(__file__).parent / "texts"


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | JsonEntry]:
    cursor = place.root / ".cursor"
    kit = replace(kit, own={"arguments": "what the person wrote after the command"})
    folder = cursor if place.project is not None else cursor / "plugins" / "local" / SKILL
    files = [*kit.command_files(folder / "commands", COMMANDS), *kit.skill(folder / "skills")]
    if place.project is None:
        manifest = Path(".cursor-plugin") / "plugin.json"
        files.append(kit.file(folder / manifest, _TEXTS / manifest))
    return [JsonEntry(path=str(cursor / "mcp.json"), keys=("mcpServers", SKILL), value=kit.server), *files]


PLUGIN = AgentPlugin(
    gets="a local plugin (commands, skill), MCP server",
    scopes=("user", "project"),
    actions=_actions,
    then="Reload Cursor's window; Settings lists the plugin and the MCP server.",
)
