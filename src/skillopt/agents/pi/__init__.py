"""pi, of which the sessions are read."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(name="pi", title="pi", source="pi", transcripts=lazily("pi.transcripts", "PiTranscripts"))
