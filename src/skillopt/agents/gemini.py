"""Gemini CLI, of which the memory file is known."""

from __future__ import annotations

from skillopt.agents.port import Agent

PLUGIN = Agent(name="gemini", title="Gemini CLI", memory=("GEMINI.md",))
