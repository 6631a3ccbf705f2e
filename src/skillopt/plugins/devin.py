"""Devin: the MCP server, a note at the end of each session, and a rule that points to the skill."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes._actions import Block, Entry, Own
from skillopt.plugins._agent import Agent, Place
from skillopt.plugins._kit import SKILL, Kit


def _actions(place: Place, kit: Kit) -> Sequence[Own | Entry | Block]:
    keys = ("mcpServers", SKILL)
    if place.project is None:
        home = place.config / "devin"
        return [
            Entry(path=str(home / "config.json"), keys=keys, value=kit.server),
            Block(path=str(home / "AGENTS.md"), content=kit.text("snippet.md").strip("\n"), style="markdown"),
        ]
    devin = place.project / ".devin"
    command = {"type": "command", "command": kit.program.line("plugin", "session-end", "devin"), "timeout": 5}
    return [
        # The local file, which Devin keeps out of version control: the server's path is this machine's.
        Entry(path=str(devin / "config.local.json"), keys=keys, value=kit.server),
        Entry(
            path=str(devin / "hooks.v1.json"),
            keys=("SessionEnd",),
            value={"matcher": "", "hooks": [command]},
            item=True,
        ),
        kit.file(devin / "rules" / f"{SKILL}.md", "snippet.md"),
        *kit.skill(devin / "skills"),
    ]


PLUGIN = Agent(
    title="Devin",
    gets="a project: MCP server, SessionEnd hook, rule, skill; for all projects: MCP server, rule",
    scopes=("project", "user"),
    actions=_actions,
    seen="",
    then="Start Devin anew; `devin mcp list` shows skillopt.",
)
