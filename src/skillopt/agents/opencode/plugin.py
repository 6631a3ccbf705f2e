"""OpenCode: the skill and the MCP server in its settings."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes.actions import JsonEntry, OwnFile
from skillopt.plugins.kit import SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | JsonEntry]:
    # OpenCode follows XDG on every system.
    home = place.folder("XDG_CONFIG_HOME", ".config") / "opencode" if place.project is None else place.project
    skills = home if place.project is None else home / ".opencode"
    settings = home / "opencode.json"
    if not settings.exists() and settings.with_suffix(".jsonc").exists():
        settings = settings.with_suffix(".jsonc")
    server = {"type": "local", "command": [kit.server["command"], *kit.server["args"]], "enabled": True}
    return [JsonEntry(path=str(settings), keys=("mcp", SKILL), value=server), *kit.skill(skills / "skills")]


PLUGIN = AgentPlugin(
    gets="the skill, MCP server",
    scopes=("user", "project"),
    actions=_actions,
    seen="OpenCode 1.18.33",
    then="Start OpenCode anew; `opencode mcp list` shows skillopt.",
)
