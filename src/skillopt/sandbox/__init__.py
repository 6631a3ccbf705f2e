"""Runs programs that nobody trusts: without network, on copies of their inputs, within limits - and says
plainly where it cannot.
"""

from skillopt.sandbox._place import Mode, is_there, require
from skillopt.sandbox._run import Limits, Ran, Sandbox

__all__ = ["Limits", "Mode", "Ran", "Sandbox", "is_there", "require"]
