"""How a target works on a task: one file each, and one for every agent that can be driven."""

from __future__ import annotations

from functools import partial

from skillopt.agents import agents
from skillopt.harnesses._rollout_budget import FIRST_TOKENS, Allowance, RolloutBudget, reservation
from skillopt.harnesses.port import Harness, HarnessPlugin, Session, Setup, TurnByTurn
from skillopt.registry import Offer, Registry

__all__ = [
    "FIRST_TOKENS",
    "Allowance",
    "Harness",
    "HarnessPlugin",
    "RolloutBudget",
    "Session",
    "Setup",
    "TurnByTurn",
    "harnesses",
    "reservation",
]


def _agents() -> dict[str, Offer]:
    return {
        one.name: Offer(load=partial(_harness_of, one.name), says=f"{one.runs}.")
        for one in agents()
        if one.driver is not None
    }


def _harness_of(name: str) -> HarnessPlugin:
    from skillopt.harnesses._agent import AgentHarness

    return partial(AgentHarness, name)


harnesses = Registry("harness", "skillopt.harnesses", offers=_agents)
