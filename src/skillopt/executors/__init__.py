"""Runs environment work - a game, a slow tool - outside the event loop: in this process or in a pool of
processes. Never a model call.
"""

from skillopt.executors.in_process import InProcess
from skillopt.executors.port import Executor, Handle
from skillopt.executors.processes import ProcessPool

__all__ = ["Executor", "Handle", "InProcess", "ProcessPool"]
