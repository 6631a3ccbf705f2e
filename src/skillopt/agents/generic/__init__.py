"""Any agent that reads AGENTS.md, and skills in `.agents/skills`."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="generic",
    title="Agents that read AGENTS.md",
    aliases=("agents",),
    skills=".agents/skills",
    plugin=lazily("generic.plugin", "PLUGIN"),
)
