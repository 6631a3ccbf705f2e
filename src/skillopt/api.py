"""What a prepared job can be put to: training, evaluation of skills, and what each gives back."""

from __future__ import annotations

from skillopt.build.comparison import Evaluated, Versus, comparisons
from skillopt.build.evaluation import Matrix, Target, eval_splits, evaluate, matrix
from skillopt.build.looking import Noted, looks_of, note_in
from skillopt.build.results import Missing
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
    "eval_splits",
    "evaluate",
    "looks_of",
    "matrix",
    "note_in",
    "train",
]
