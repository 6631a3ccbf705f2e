"""OpenClaw."""

from skillopt.agents.port import FOLDER, Agent, AgentPlugin

PLUGIN = Agent(
    name="openclaw",
    title="OpenClaw",
    plugin=AgentPlugin(
        gets="the skill",
        by_hand=(
            "Copy the skill (for one workspace: into its folder skills):\nmkdir -p ~/.openclaw/skills"
            f" && cp -R '{FOLDER}/skills/skillopt' ~/.openclaw/skills/"
        ),
        back_by_hand="Remove ~/.openclaw/skills/skillopt.",
        then="Start a new OpenClaw session.",
    ),
)
