"""Codex: OpenAI's agent."""

from skillopt.agents.port import Agent, from_marketplace, lazily, own_login
from skillopt.services import Service, agent_keys

PLUGIN = Agent(
    name="codex",
    title="Codex",
    skills=".agents/skills",
    listed="- {name}: {description} (file: r0/{name}/SKILL.md)",
    memory=("AGENTS.md",),
    rules=("AGENTS.override.md",),
    driver=lazily("codex.driver", "DRIVER"),
    runs=(
        "Codex: the skill in `.agents/skills`, invoked with its dollar sign; commands run in Codex's own"
        " sandbox without network"
    ),
    login="codex_cli",
    account=own_login("gpt-5.5", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
    program=Service(
        prefix="codex_exec",
        keys=agent_keys(
            *("path", "sandbox", "profile", "reasoning_effort", "use_sdk", "network_access", "web_search"),
            "approval_policy",
        ),
        variables={
            "CODEX_CLI_BIN": "agent.path",
            "CODEX_PATH": "agent.path",
            "CODEX_SANDBOX_MODE": "agent.sandbox",
            "CODEX_SANDBOX": "agent.sandbox",
            "CODEX_PROFILE": "agent.profile",
        },
        aliases={
            **dict.fromkeys(("codex_path", "codex_cli_bin", "codex_bin"), "codex_exec_path"),
            **dict.fromkeys(("sandbox", "codex_sandbox"), "codex_exec_sandbox"),
        },
        backends=("codex_exec", "codex"),
    ),
    vendor="openai",
    is_provider=True,
    source="codex",
    transcripts=lazily("codex.transcripts", "CodexTranscripts"),
    plugin=from_marketplace("codex", add="add", remove="remove", seen="Codex 0.166.0"),
)
