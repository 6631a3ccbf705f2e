"""Codex: the skill where many look for skills, and the MCP server in our block of its settings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt.changes.actions import OwnFile, TextLines
from skillopt.plugins.kit import SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace

_TAKEN = (
    rf"(?m)^[ \t]*(?:\[+[ \t]*[\"']?mcp_servers[\"']?[ \t]*\.[ \t]*[\"']?{SKILL}[\"']?["
    r" \t]*[\].].*|[\"']?mcp_servers[\"']?[ \t]*[.=].*)$"
)
"""A server of our name, or servers written in a way that a further table cannot be added to."""


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile | TextLines]:
    skill = kit.skill(place.root / ".agents" / "skills")
    if place.project is not None:  # Codex reads settings of a project only where it is trusted
        return skill
    # A JSON string is a TOML string.
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in kit.server.items())
    content = "\n".join([f"[mcp_servers.{SKILL}]", *lines])
    settings = place.folder("CODEX_HOME", ".codex") / "config.toml"
    return [TextLines(path=str(settings), content=content, style="hash", unless=_TAKEN), *skill]


PLUGIN = AgentPlugin(
    gets="the skill, MCP server",
    scopes=("user", "project"),
    actions=_actions,
    seen="Codex 0.166.0",
    then=(
        "Start Codex anew; $skillopt in a prompt loads the skill, and after a user install `codex mcp list`"
        " shows the server."
    ),
)
