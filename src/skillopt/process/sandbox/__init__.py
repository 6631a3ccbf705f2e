"""Runs programs that nobody trusts: no network, copies of inputs, limits - and says where it cannot."""

from skillopt.process.sandbox._place import Mode, is_there, require
from skillopt.process.sandbox._run import ProcessLimits, Ran, Sandbox

__all__ = ["Mode", "ProcessLimits", "Ran", "Sandbox", "is_there", "require"]
