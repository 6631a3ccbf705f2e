"""Cursor, and its CLI."""

from skillopt.agents.port import Agent, by_hand, lazily, own_login

PLUGIN = Agent(
    name="cursor",
    title="Cursor",
    skills=".cursor/skills",
    memory=(".cursorrules",),
    rules=(".cursor/rules/*.mdc", ".cursor/rules/*.md"),
    driver=lazily("cursor.driver", "DRIVER"),
    runs="Cursor CLI: the skill in `.cursor/skills`, asked for in words and proven by reading it",
    login="cursor_cli",
    account=own_login("composer-2.5"),
    source="cursor",
    transcripts=lazily("cursor.transcripts", "CursorTranscripts"),
    plugin=by_hand(
        "~/.cursor/mcp.json (a project: .cursor/mcp.json)",
        {"mcpServers": {"skillopt": {"command": "skillopt", "args": ["mcp"]}}},
        "~/.cursor/skills",
        then="Reload Cursor's window; Settings lists the MCP server.",
    ),
)
