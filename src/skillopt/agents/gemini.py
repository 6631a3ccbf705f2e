"""Gemini CLI, of which the memory file is known."""

from skillopt.agents.port import Agent

PLUGIN = Agent(name="gemini", title="Gemini CLI", memory=("GEMINI.md",))
