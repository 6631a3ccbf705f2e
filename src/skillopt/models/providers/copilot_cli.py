"""Chat through the GitHub Copilot CLI, with a key or token or with the login that the CLI keeps itself."""

from __future__ import annotations

from skillopt.models.providers._agent_cli import agent_chat

PLUGIN = agent_chat("copilot")
