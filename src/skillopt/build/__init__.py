"""Assembles a run from its configuration: functions that take a job and give back its parts."""

from skillopt.build.assembly import OpenRun, open_run
from skillopt.build.job import Job, prepare, tasks_digest
from skillopt.build.trainer import trainer_of

__all__ = ["Job", "OpenRun", "open_run", "prepare", "tasks_digest", "trainer_of"]
