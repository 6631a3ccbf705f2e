"""How a target works on a task: one file each, and one for every agent that can be driven."""

from __future__ import annotations

from functools import partial

from skillopt.agents import agents
from skillopt.harnesses._own_agent import harness_of, located
from skillopt.harnesses._rollout_budget import FIRST_TOKENS, RolloutBudget, reservation
from skillopt.harnesses.port import Harness, HarnessPlugin, HasIdentity, Session, Setup, TurnByTurn
from skillopt.models.port import ModelSpec
from skillopt.registry import Offer, Registry

__all__ = [
    "FIRST_TOKENS",
    "Harness",
    "HarnessPlugin",
    "RolloutBudget",
    "Session",
    "Setup",
    "TurnByTurn",
    "harness_of",
    "harnesses",
    "identity_of",
    "located",
    "reservation",
    "works_alone",
]


def _agents() -> dict[str, Offer]:
    return {
        one.name: Offer(load=partial(_harness_of, one.name), says=f"{one.runs}.")
        for one in agents()
        if one.driver is not None
    }


def _harness_of(name: str) -> HarnessPlugin:
    from skillopt.harnesses._agent import AgentTarget

    return AgentTarget(name)


harnesses = Registry("harness", "skillopt.harnesses", offers=_agents)


def identity_of(name: str, spec: ModelSpec) -> str:
    """What tells two targets of one name apart before a run is opened; blank where nothing does."""
    plugin = harnesses.get(name)
    return plugin.identity(spec) if isinstance(plugin, HasIdentity) else ""


def works_alone(name: str) -> bool:
    """Whether a harness asks its models itself: a rollout is paid as a whole and gets the skill's files."""
    return not getattr(harnesses.get(name), "asks_model", True)
