"""GitHub Copilot CLI. Sessions of Copilot in VS Code are `copilot_chat`'s."""

from skillopt.agents.port import Agent, from_marketplace, lazily

PLUGIN = Agent(
    name="copilot",
    title="GitHub Copilot",
    skills=".claude/skills",
    memory=(".github/copilot-instructions.md",),
    rules=("copilot-instructions.md", "instructions/*.instructions.md"),
    driver=lazily("copilot.driver", "DRIVER"),
    runs=(
        "GitHub Copilot CLI: the skill in `.claude/skills`, asked for in words and proven by its `skill` tool"
    ),
    login="copilot_cli",
    is_provider=True,
    source="copilot_cli",
    transcripts=lazily("copilot.transcripts", "CopilotCliTranscripts"),
    plugin=from_marketplace("copilot", add="install", remove="uninstall", seen="Copilot CLI 1.0.102"),
)
