"""Copilot in VS Code, of which the sessions are read."""

from skillopt.agents.port import Agent, lazily

PLUGIN = Agent(
    name="copilot_chat",
    title="Copilot in VS Code",
    aliases=("copilot", "vscode"),
    source="copilot_chat",
    transcripts=lazily("copilot_chat.transcripts", "CopilotChatTranscripts"),
)
