"""The Python door: train a skill, evaluate skills, compare them, and what each gives back."""

from __future__ import annotations

from skillopt.api._comparison import Evaluated, Versus, comparisons
from skillopt.api._evaluation import Matrix, Target, eval_splits, evaluate, matrix
from skillopt.api._looking import Noted, looks_of, note_in
from skillopt.api._results import Missing
from skillopt.api._training import Result, aoptimize, optimize, train

__all__ = [
    "Evaluated",
    "Matrix",
    "Missing",
    "Noted",
    "Result",
    "Target",
    "Versus",
    "aoptimize",
    "comparisons",
    "eval_splits",
    "evaluate",
    "looks_of",
    "matrix",
    "note_in",
    "optimize",
    "train",
]
