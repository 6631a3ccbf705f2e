"""Codex: OpenAI's agent."""

from skillopt.agents.port import Agent, from_marketplace, lazily, own_login

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
    account=own_login("gpt-5.5"),
    vendor="openai",
    is_provider=True,
    source="codex",
    transcripts=lazily("codex.transcripts", "CodexTranscripts"),
    plugin=from_marketplace("codex", add="add", remove="remove", seen="Codex 0.166.0"),
)
