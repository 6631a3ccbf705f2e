"""Checks everything a configured run needs, side by side, and says what to do where something is missing."""

from __future__ import annotations

from skillopt.doctor._examine import Examination, Subject, examine
from skillopt.doctor._result import CheckResult, State

__all__ = ["CheckResult", "Examination", "State", "Subject", "examine"]
