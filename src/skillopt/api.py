"""What a prepared job can be put to: training, evaluation of skills, and what each gives back."""

from __future__ import annotations

from skillopt.build.evaluation import Matrix, eval_splits, evaluate, matrix
from skillopt.build.results import (
    Evaluated,
    Missing,
    Noted,
    Versus,
    comparisons,
    decided_splits,
    looks_of,
    note_in,
)
from skillopt.build.target import Target
from skillopt.build.training import Result, train

__all__ = [
    "Evaluated",
    "Matrix",
    "Missing",
    "Noted",
    "Result",
    "Target",
    "Versus",
    "comparisons",
    "decided_splits",
    "eval_splits",
    "evaluate",
    "looks_of",
    "matrix",
    "note_in",
    "train",
]
