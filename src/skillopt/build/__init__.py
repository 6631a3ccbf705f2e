"""Assembles a run from its configuration."""

from skillopt.build.engine import Engine
from skillopt.build.job import Job, prepare, tasks_digest
from skillopt.build.lab import Lab

__all__ = ["Engine", "Job", "Lab", "prepare", "tasks_digest"]
