"""Runs environment work - a game, a slow tool - outside the event loop: in this process or in a pool of
processes. Never a model call.
"""

from skillopt.executor._in_process import InProcess
from skillopt.executor._port import Executor, Handle
from skillopt.executor._processes import ProcessPool

__all__ = ["Executor", "Handle", "InProcess", "ProcessPool"]
