"""Chat through the GitHub Copilot CLI, with a key or token or with the login that the CLI keeps itself."""

from __future__ import annotations

from skillopt.models._agent_cli import AgentChat
from skillopt.models._model import Model, ModelSpec


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A model that the installed `copilot` answers for; see docs/agents.md."""
    return AgentChat(spec, "copilot")
