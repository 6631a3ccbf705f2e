"""Search strategies: how a step turns rollouts into a judged candidate. One file each; the folder is the
registry.
"""

from __future__ import annotations

from skillopt.registry import Registry

STRATEGIES = Registry("search strategy", "skillopt.train.strategies", "skillopt.strategies")
