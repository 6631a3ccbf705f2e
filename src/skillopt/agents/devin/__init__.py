"""Devin."""

from skillopt.agents.port import Agent, by_hand, lazily

PLUGIN = Agent(
    name="devin",
    title="Devin",
    skills=".devin/skills",
    rules=(".devin/rules/*.md", ".devin/rules/*.mdc"),
    source="devin",
    transcripts=lazily("devin.transcripts", "DevinTranscripts"),
    plugin=by_hand(
        ".devin/config.local.json of the project (for all projects: ~/.config/devin/config.json)",
        {"mcpServers": {"skillopt": {"command": "skillopt", "args": ["mcp"]}}},
        ".devin/skills",
        then="Start Devin anew; `devin mcp list` shows skillopt.",
        further=(
            "\nFor a line when a proposal waits, put this into .devin/hooks.v1.json:\n"
            '{"SessionStart": [{"matcher": "", "hooks": [{"type": "command", "command":'
            ' "skillopt plugin session-start", "timeout": 5}]}]}'
        ),
    ),
)
