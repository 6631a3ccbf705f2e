"""GitHub Copilot CLI. Sessions of Copilot in VS Code are `copilot_chat`'s."""

from __future__ import annotations

from skillopt.agents.port import Agent, lazily
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
    account=Service(
        needs_name=False,
        uses_own_login=True,
        default_model="",
        keys={"api_key": "api_key"},
        further_keys={
            "copilot_chat_optimizer_model": ("optimizer", "name"),
            "copilot_chat_target_model": ("target", "name"),
            "copilot_chat_timeout": (None, "timeout"),
        },
        variables={"COPILOT_GITHUB_TOKEN": "api_key"},
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
    plugin=lazily("copilot.plugin", "PLUGIN"),
)
