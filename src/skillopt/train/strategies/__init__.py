"""Search strategies: how a step turns rollouts into a judged candidate. One file each; the folder is the
registry.
"""

from __future__ import annotations

from skillopt.registry import Registry
from skillopt.train.strategies.port import JudgedCandidate, Parts, Strategy

__all__ = ["STRATEGIES", "JudgedCandidate", "Parts", "Strategy"]

STRATEGIES = Registry("search strategy", "skillopt.train.strategies", "skillopt.strategies")
