"""Chat through the GitHub Copilot CLI, with a key or token or with the login that the CLI keeps itself."""

from __future__ import annotations

from skillopt.models.port import Model, ModelSpec
from skillopt.models.providers._agent_cli import AgentChat


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A model that the installed `copilot` answers for; see docs/agents.md."""
    return AgentChat(spec, "copilot")
