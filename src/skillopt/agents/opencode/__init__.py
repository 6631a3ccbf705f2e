"""OpenCode."""

from skillopt.agents.port import Agent, by_hand, lazily

PLUGIN = Agent(
    name="opencode",
    title="OpenCode",
    skills=".agents/skills",
    driver=lazily("opencode.driver", "DRIVER"),
    runs="OpenCode: the skill in `.agents/skills`, run as the command that every skill is",
    login="opencode_cli",
    source="opencode",
    transcripts=lazily("opencode.transcripts", "OpenCodeTranscripts"),
    plugin=by_hand(
        "~/.config/opencode/opencode.json (a project: opencode.json)",
        {"mcp": {"skillopt": {"type": "local", "command": ["skillopt", "mcp"], "enabled": True}}},
        "~/.config/opencode/skills",
        then="Start OpenCode anew; `opencode mcp list` shows skillopt.",
        seen="OpenCode 1.18.33",
    ),
)
