"""OpenCode."""

from __future__ import annotations

from skillopt.agents.port import Agent, lazily
from skillopt.services import Service

PLUGIN = Agent(
    name="opencode",
    title="OpenCode",
    skills=".agents/skills",
    driver=lazily("opencode.driver", "DRIVER"),
    runs="OpenCode: the skill in `.agents/skills`, run as the command that every skill is",
    login="opencode_cli",
    account=Service(needs_name=False, uses_own_login=True, default_model="", keys={}),
    program=Service(keys={}, backs_optimizer=False),
    source="opencode",
    transcripts=lazily("opencode.transcripts", "OpenCodeTranscripts"),
    plugin=lazily("opencode.plugin", "PLUGIN"),
)
