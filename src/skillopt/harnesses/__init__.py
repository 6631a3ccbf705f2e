"""How a target works on a task: one file each, and one for every agent that can be driven."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

from skillopt.agents import agents
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


_FUNCTION = re.compile(r"[^\n]+\.py:[A-Za-z_][\w.]*|function:\s*\S+:[A-Za-z_][\w.]*")

harnesses = Registry("harness", "skillopt.harnesses", offers=_agents)


def identity_of(name: str, spec: ModelSpec) -> str:
    """What tells two targets of one name apart before a run is opened; blank where nothing does."""
    plugin = harnesses.get(name)
    return plugin.identity(spec) if isinstance(plugin, HasIdentity) else ""


def works_alone(name: str) -> bool:
    """Whether a harness asks its models itself: a rollout is paid as a whole and gets the skill's files."""
    return not getattr(harnesses.get(name), "asks_model", True)


def harness_of(text: str) -> str | None:
    """The harness of a target that is written without a model: `cmd: program`, an address, or a function as
    `file.py:name` or `function:package.module:name`.
    """
    if text.startswith("cmd:"):
        return "command"
    if text.startswith(("http://", "https://")):
        return "service"
    return "function" if _FUNCTION.fullmatch(text) else None


def located(text: str, find: Callable[[str], Path]) -> str:
    """The target with the files that it names where `find` sees them, perhaps beside a configuration."""
    if text.startswith("cmd:"):
        from skillopt.tasks.commands import argv_of

        program, *rest = argv_of(text.removeprefix("cmd:"), "target")
        if "/" in program:  # else it is looked for on the PATH
            program = f"./{path}" if not (path := find(program)).is_absolute() else str(path)
        rest = [str(path) if (path := find(part)).is_file() else part for part in rest]
        return f"cmd: {shlex.join([program, *rest])}"
    file, _, name = text.rpartition(":")
    return f"{find(file)}:{name}" if file.endswith(".py") else text
