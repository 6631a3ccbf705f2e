"""Any agent that reads AGENTS.md: a few lines in our block of it."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes.actions import TextLines
from skillopt.plugins.kit import Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace


def _actions(place: InstallPlace, kit: Kit) -> Sequence[TextLines]:
    return [kit.snippet(place.root / "AGENTS.md")]


PLUGIN = AgentPlugin(
    gets="a block in AGENTS.md",
    scopes=("project",),
    actions=_actions,
    then="Agents read it at their next start in that project.",
)
