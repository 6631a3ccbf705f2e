"""SkillOpt trains the skill of an agent - the Markdown document it loads before it works - with the model
frozen.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillopt.benchmarks import Benchmark, Environment
    from skillopt.errors import SkillOptError, Stopped, UsageError
    from skillopt.evaluation.compare import Comparison
    from skillopt.events import Event, Sink
    from skillopt.harnesses import Harness, Session
    from skillopt.messages import Message, Reply, Request, Usage
    from skillopt.models import Model, ModelSpec, Provider
    from skillopt.registry.kinds import register
    from skillopt.run.estimation import Estimate
    from skillopt.run.library import acompare, aevaluate, aoptimize, compare, estimate, evaluate, optimize
    from skillopt.run.results import Evaluated, Versus
    from skillopt.run.training import Result
    from skillopt.skill.folder import Skill, load_skill
    from skillopt.tasks.rollout import Invalid, Score, Scored, Trajectory
    from skillopt.tasks.scorers import Scorer
    from skillopt.tasks.task import Task
    from skillopt.trackers import Tracker

    __version__: str

_NAMES = {
    "skillopt.benchmarks": "Benchmark Environment",
    "skillopt.run.results": "Evaluated Versus",
    "skillopt.run.training": "Result",
    "skillopt.errors": "SkillOptError Stopped UsageError",
    "skillopt.run.estimation": "Estimate",
    "skillopt.evaluation.compare": "Comparison",
    "skillopt.events": "Event Sink",
    "skillopt.harnesses": "Harness Session",
    "skillopt.run.library": "acompare aevaluate aoptimize compare estimate evaluate optimize",
    "skillopt.messages": "Message Reply Request Usage",
    "skillopt.models": "Model ModelSpec Provider",
    "skillopt.registry.kinds": "register",
    "skillopt.skill.folder": "Skill load_skill",
    "skillopt.tasks.rollout": "Invalid Score Scored Trajectory",
    "skillopt.tasks.scorers": "Scorer",
    "skillopt.tasks.task": "Task",
    "skillopt.trackers": "Tracker",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Benchmark",
    "Comparison",
    "Environment",
    "Estimate",
    "Evaluated",
    "Event",
    "Harness",
    "Invalid",
    "Message",
    "Model",
    "ModelSpec",
    "Provider",
    "Reply",
    "Request",
    "Result",
    "Score",
    "Scored",
    "Scorer",
    "Session",
    "Sink",
    "Skill",
    "SkillOptError",
    "Stopped",
    "Task",
    "Tracker",
    "Trajectory",
    "Usage",
    "UsageError",
    "Versus",
    "acompare",
    "aevaluate",
    "aoptimize",
    "compare",
    "estimate",
    "evaluate",
    "load_skill",
    "optimize",
    "register",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used: `import skillopt` itself stays light."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        try:
            return metadata.version("skillopt-trainer")
        except metadata.PackageNotFoundError:  # a source tree that was never installed
            return "0+unknown"
    raise AttributeError(f"module 'skillopt' has no attribute {name!r}")
