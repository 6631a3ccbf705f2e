"""Claude Code: Anthropic's agent."""

from skillopt.agents.port import Agent, from_marketplace, lazily, own_login

PLUGIN = Agent(
    name="claude_code",
    title="Claude Code",
    aliases=("claude",),
    skills=".claude/skills",
    memory=("CLAUDE.md",),
    rules=("CLAUDE.local.md",),
    driver=lazily("claude_code.driver", "DRIVER"),
    runs="Claude Code: the skill in `.claude/skills`, invoked as the slash command it is",
    login="claude_cli",
    account=own_login("claude-sonnet-4-6"),
    vendor="anthropic",
    prefers_vendor_key=True,
    token_prefix="sk-ant-oat",
    is_provider=True,
    source="claude_code",
    transcripts=lazily("claude_code.transcripts", "ClaudeCodeTranscripts"),
    plugin=from_marketplace("claude", add="install", remove="uninstall", seen="Claude Code 2.1.197"),
)
