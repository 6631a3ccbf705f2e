"""From settings to an open run, and what can be done with it: training, and evaluation of skills."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillopt.run.assembly import OpenRun, open_run
    from skillopt.run.evaluation import Matrix, eval_splits, evaluate, matrix
    from skillopt.run.job import Job, Target
    from skillopt.run.preparation import prepare, prepare_training
    from skillopt.run.results import Evaluated, Versus, comparisons
    from skillopt.run.trainer import trainer_of
    from skillopt.run.training import Result, train

_NAMES = {
    "skillopt.run.assembly": "OpenRun open_run",
    "skillopt.run.evaluation": "Matrix eval_splits evaluate matrix",
    "skillopt.run.job": "Job Target",
    "skillopt.run.preparation": "prepare prepare_training",
    "skillopt.run.results": "Evaluated Versus comparisons",
    "skillopt.run.trainer": "trainer_of",
    "skillopt.run.training": "Result train",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Evaluated",
    "Job",
    "Matrix",
    "OpenRun",
    "Result",
    "Target",
    "Versus",
    "comparisons",
    "eval_splits",
    "evaluate",
    "matrix",
    "open_run",
    "prepare",
    "prepare_training",
    "train",
    "trainer_of",
]


def __getattr__(name: str) -> Any:
    """A name is imported when it is first used: training loads no evaluation of other skills."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'skillopt.run' has no attribute {name!r}")
