"""Claude Code: Anthropic's agent."""

from skillopt.agents.port import Agent, from_marketplace, lazily, own_login
from skillopt.services import Service, agent_keys

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
    account=own_login("claude-sonnet-4-6", "CLAUDE_CODE_OAUTH_TOKEN", backends=("claude_chat", "claude")),
    program=Service(
        prefix="claude_code_exec",
        keys=agent_keys("path", "profile", "use_sdk", "effort", "max_thinking_tokens"),
        variables={"CLAUDE_CLI_BIN": "agent.path"},
        backends=("claude_code_exec",),
        backs_optimizer=False,
    ),
    vendor="anthropic",
    prefers_vendor_key=True,
    token_prefix="sk-ant-oat",
    is_provider=True,
    source="claude_code",
    transcripts=lazily("claude_code.transcripts", "ClaudeCodeTranscripts"),
    plugin=from_marketplace("claude", add="install", remove="uninstall", seen="Claude Code 2.1.197"),
)
