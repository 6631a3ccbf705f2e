"""Cursor, and its CLI."""

from __future__ import annotations

from skillopt.agents.port import Agent, lazily
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
    account=Service(
        needs_name=False,
        uses_own_login=True,
        default_model="composer-2.5",
        keys={"api_key": "api_key"},
        variables={"CURSOR_API_KEY": "api_key"},
    ),
    program=Service(
        prefix="cursor_exec",
        keys=agent_keys("path", "sandbox"),
        backends=("cursor_exec", "cursor", "cursor_agent"),
        backs_optimizer=False,
    ),
    source="cursor",
    transcripts=lazily("cursor.transcripts", "CursorTranscripts"),
    plugin=lazily("cursor.plugin", "PLUGIN"),
)
