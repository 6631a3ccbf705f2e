"""Every kind of plug-in by its name, for whoever lists them or adds one in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.agents import AGENTS, SOURCES
from skillopt.benchmarks import benchmarks
from skillopt.errors import UnknownName
from skillopt.gate.policies import POLICIES
from skillopt.harnesses import harnesses
from skillopt.models import PROVIDERS
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.registry import Registry
from skillopt.tasks.scorers import SCORERS
from skillopt.trackers import trackers
from skillopt.train.strategies import STRATEGIES

KINDS: Mapping[str, Registry] = {
    "benchmarks": benchmarks,
    "models": PROVIDERS,
    "harnesses": harnesses,
    "trackers": trackers,
    "scorers": SCORERS,
    "gate": POLICIES,
    "strategies": STRATEGIES,
    "proposers": PROPOSERS,
    "transcripts": SOURCES,
    "agents": AGENTS,
}
"""A package adds to a kind by an entry point of the group `skillopt.<kind>`."""


def register(kind: str, name: str, plugin: Any) -> None:
    """Add a plug-in for the rest of this process, as an entry point would: `register("models", "acme", ...)`.

    What a plug-in is depends on the kind: a `Provider`, or a callable from `ModelSpec` to `Model`, for
    `models`; a `BenchmarkPlugin` for `benchmarks`; a callable from `Setup` to `Harness` for `harnesses`; a
    `TrackerPlugin` for `trackers`; a `Scorer` or a function of task and answer for `scorers`; a callable from
    the rows of a decision to its reader, such as a subclass of `Strict`, for `gate`; a callable from
    `StrategyContext` to `Strategy` for `strategies`; a callable from `ProposerSetup` to `Proposer` for
    `proposers`; a callable from `Homes` to `TranscriptSource` for `transcripts`; an `Agent` for `agents`. A
    plug-in of the same name is replaced.
    """
    if kind not in KINDS:
        raise UnknownName("kind of plug-in", kind, list(KINDS))
    KINDS[kind].add(name, plugin)
