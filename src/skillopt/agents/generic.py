"""Any agent that reads AGENTS.md, and skills in `.agents/skills`."""

from skillopt.agents.port import FOLDER, Agent, AgentPlugin

PLUGIN = Agent(
    name="generic",
    title="Agents that read AGENTS.md",
    aliases=("agents",),
    skills=".agents/skills",
    plugin=AgentPlugin(
        gets="a few lines in AGENTS.md",
        by_hand=f"Add them to AGENTS.md of the project:\ncat '{FOLDER}/../AGENTS.snippet.md' >> AGENTS.md",
        back_by_hand="Take the section `SkillOpt` out of AGENTS.md.",
        then="Agents read it at their next start in that project.",
    ),
)
