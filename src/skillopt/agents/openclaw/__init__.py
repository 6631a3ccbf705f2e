"""OpenClaw."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(name="openclaw", title="OpenClaw", plugin=lazily("openclaw.plugin", "PLUGIN"))
