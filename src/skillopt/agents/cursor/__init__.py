"""Cursor, and its CLI."""

from skillopt.agents.port import Agent, by_hand, lazily, own_login
from skillopt.services import Service, agent_keys

PLUGIN = Agent(
    name="cursor",
    title="Cursor",
    skills=".cursor/skills",
    memory=(".cursorrules",),
    rules=(".cursor/rules/*.mdc", ".cursor/rules/*.md"),
    driver=lazily("cursor.driver", "DRIVER"),
    runs="Cursor CLI: the skill in `.cursor/skills`, asked for in words and proven by reading it",
    login="cursor_cli",
    account=own_login("composer-2.5", "CURSOR_API_KEY"),
    program=Service(
        prefix="cursor_exec",
        keys=agent_keys("path", "sandbox"),
        backends=("cursor_exec", "cursor", "cursor_agent"),
        backs_optimizer=False,
    ),
    source="cursor",
    transcripts=lazily("cursor.transcripts", "CursorTranscripts"),
    plugin=by_hand(
        "~/.cursor/mcp.json (a project: .cursor/mcp.json)",
        {"mcpServers": {"skillopt": {"command": "skillopt", "args": ["mcp"]}}},
        "~/.cursor/skills",
        then="Reload Cursor's window; Settings lists the MCP server.",
    ),
)
