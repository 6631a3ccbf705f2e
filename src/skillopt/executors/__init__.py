"""Runs environment work - a game, a slow tool - outside the event loop: in this process or in a pool of
processes, one file each. Never a model call.
"""

from skillopt.executors.port import Executor, ExecutorPlugin, Handle
from skillopt.registry import Registry

__all__ = ["Executor", "ExecutorPlugin", "Handle", "executors"]

executors = Registry("executor", "skillopt.executors")
