"""Any agent that reads AGENTS.md: a few lines in our block of it."""

from skillopt.plugins.port import AgentPlugin

PLUGIN = AgentPlugin(
    gets="a block in AGENTS.md",
    scopes=("project",),
    actions=lambda place, kit: [kit.snippet(place.root / "AGENTS.md")],
    then="Agents read it at their next start in that project.",
)
