"""Sessions in the plain form that anybody can write: one JSON object a line."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="jsonl",
    title="Plain sessions",
    source="jsonl",
    transcripts=lazily("jsonl.transcripts", "JsonlTranscripts"),
)
