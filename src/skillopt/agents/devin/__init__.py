"""Devin."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="devin",
    title="Devin",
    skills=".devin/skills",
    rules=(".devin/rules/*.md", ".devin/rules/*.mdc"),
    source="devin",
    transcripts=lazily("devin.transcripts", "DevinTranscripts"),
    plugin=lazily("devin.plugin", "PLUGIN"),
)
