"""Devin: the MCP server, a line at the start of a session, and a rule that points to the skill."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes.actions import JsonEntry, OwnFile, TextLines
from skillopt.plugins.kit import SHARED, SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | JsonEntry | TextLines]:
    keys = ("mcpServers", SKILL)
    if place.project is None:
        home = place.config / "devin"
        return [
            JsonEntry(path=str(home / "config.json"), keys=keys, value=kit.server),
            kit.snippet(home / "AGENTS.md"),
        ]
    devin = place.project / ".devin"
    command = {"type": "command", "command": kit.program.line("plugin", "session-start"), "timeout": 5}
    hook = {"matcher": "", "hooks": [command]}
    return [
        # The local file, which Devin keeps out of version control: the server's path is this machine's.
        JsonEntry(path=str(devin / "config.local.json"), keys=keys, value=kit.server),
        JsonEntry(path=str(devin / "hooks.v1.json"), keys=("SessionStart",), value=hook, item=True),
        kit.file(devin / "rules" / f"{SKILL}.md", SHARED / "snippet.md"),
        *kit.skill(devin / "skills"),
    ]


PLUGIN = AgentPlugin(
    gets="a project: MCP server, SessionStart hook, rule, skill; for all projects: MCP server, rule",
    scopes=("project", "user"),
    actions=_actions,
    then="Start Devin anew; `devin mcp list` shows skillopt.",
)
