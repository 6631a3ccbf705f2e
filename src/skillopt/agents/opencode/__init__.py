"""OpenCode."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="opencode",
    title="OpenCode",
    skills=".agents/skills",
    driver=lazily("opencode.driver", "DRIVER"),
    runs="OpenCode: the skill in `.agents/skills`, run as the command that every skill is",
    login="opencode_cli",
    source="opencode",
    transcripts=lazily("opencode.transcripts", "OpenCodeTranscripts"),
    plugin=lazily("opencode.plugin", "PLUGIN"),
)
