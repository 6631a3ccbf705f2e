"""GitHub Copilot CLI. Sessions of Copilot in VS Code are `copilot_chat`'s."""

from skillopt.agents.port import Agent, from_marketplace, lazily, own_login
from skillopt.services import Service, agent_keys

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
    account=own_login(
        "",
        "COPILOT_GITHUB_TOKEN",
        further_keys={
            "copilot_chat_optimizer_model": ("optimizer", "name"),
            "copilot_chat_target_model": ("target", "name"),
            "copilot_chat_timeout": (None, "timeout"),
        },
        backends=("copilot_chat", "copilot", "github_copilot"),
    ),
    program=Service(
        prefix="copilot_exec",
        keys=agent_keys("path", "home", "allow_all_tools"),
        backends=("copilot_exec",),
        backs_optimizer=False,
    ),
    is_provider=True,
    source="copilot_cli",
    transcripts=lazily("copilot.transcripts", "CopilotCliTranscripts"),
    plugin=from_marketplace("copilot", add="install", remove="uninstall", seen="Copilot CLI 1.0.102"),
)
