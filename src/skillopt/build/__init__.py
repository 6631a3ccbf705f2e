"""Assembles a run from its configuration: functions that take a job and give back its parts."""

from skillopt.build.assembly import OpenRun, open_run
from skillopt.build.division import tasks_digest
from skillopt.build.job import Job, prepare, prepare_training
from skillopt.build.trainer import trainer_of

__all__ = ["Job", "OpenRun", "open_run", "prepare", "prepare_training", "tasks_digest", "trainer_of"]
