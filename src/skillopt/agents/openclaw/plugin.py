"""OpenClaw: the skill, for all its agents or in one workspace."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.changes.actions import OwnFile
from skillopt.plugins.kit import Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile]:
    return kit.skill((place.home / ".openclaw" if place.project is None else place.project) / "skills")


PLUGIN = AgentPlugin(
    gets="the skill",
    scopes=("user", "project"),
    actions=_actions,
    then="Start a new OpenClaw session; a project is an agent's workspace.",
)
