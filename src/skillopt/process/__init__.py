"""Starts every child process of the project: never through a shell, never with our environment, and ended
with its whole tree.

The one exception is `start_detached`, for work that somebody paid for and that is to go on without us.
"""

from skillopt.process._reaper import end_tree
from skillopt.process._run import (
    Finished,
    TimedOut,
    ask_process,
    git_env,
    minimal_env,
    own_group,
    own_program,
    run_process,
    start_detached,
)

__all__ = [
    "Finished",
    "TimedOut",
    "ask_process",
    "end_tree",
    "git_env",
    "minimal_env",
    "own_group",
    "own_program",
    "run_process",
    "start_detached",
]
