"""Sessions in the plain form that anybody can write: one JSON object a line."""

from __future__ import annotations

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="jsonl",
    title="Plain sessions",
    source="jsonl",
    transcripts=lazily("jsonl.transcripts", "JsonlTranscripts"),
)
