"""Assembles a run from its configuration."""

from skillopt.build.engine import Engine
from skillopt.build.job import Job, prepare
from skillopt.build.lab import Lab

__all__ = ["Engine", "Job", "Lab", "prepare"]
