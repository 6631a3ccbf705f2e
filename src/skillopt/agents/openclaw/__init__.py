"""OpenClaw."""

from __future__ import annotations

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(name="openclaw", title="OpenClaw", plugin=lazily("openclaw.plugin", "PLUGIN"))
