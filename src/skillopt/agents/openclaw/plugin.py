"""OpenClaw: the skill, for all its agents or in one workspace."""

from skillopt.plugins.port import AgentPlugin

PLUGIN = AgentPlugin(
    gets="the skill",
    scopes=("user", "project"),
    actions=lambda place, kit: kit.skill((place.project or place.home / ".openclaw") / "skills"),
    then="Start a new OpenClaw session; a project is an agent's workspace.",
)
