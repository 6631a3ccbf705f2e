"""The Python door: train a skill, evaluate skills, compare them, and what each gives back."""

from __future__ import annotations

from skillopt.api._evaluation import Evaluated, Versus, comparisons, eval_splits, evaluate
from skillopt.api._training import Result, aoptimize, optimize, train

__all__ = ["Evaluated", "Result", "Versus", "aoptimize", "comparisons", "eval_splits", "evaluate", "optimize", "train"]
