"""From settings to an open run, and what a prepared job can be put to: training, evaluation of skills, and
what each gives back.
"""

from skillopt.run.assembly import OpenRun, open_run
from skillopt.run.evaluation import Matrix, eval_splits, evaluate, matrix
from skillopt.run.job import Job, Target, tasks_digest
from skillopt.run.preparation import prepare, prepare_training
from skillopt.run.results import (
    Evaluated,
    Noted,
    Versus,
    comparisons,
    decided_splits,
    looks_of,
    note_in,
)
from skillopt.run.trainer import trainer_of
from skillopt.run.training import Result, train

__all__ = [
    "Evaluated",
    "Job",
    "Matrix",
    "Noted",
    "OpenRun",
    "Result",
    "Target",
    "Versus",
    "comparisons",
    "decided_splits",
    "eval_splits",
    "evaluate",
    "looks_of",
    "matrix",
    "note_in",
    "open_run",
    "prepare",
    "prepare_training",
    "tasks_digest",
    "train",
    "trainer_of",
]
