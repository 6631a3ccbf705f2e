"""Starts every child process of the project: never through a shell, never with our environment, and ended with its whole tree."""

from skillopt.process._run import Finished, TimedOut, ask_process, minimal_env, run_process

__all__ = ["Finished", "TimedOut", "ask_process", "minimal_env", "run_process"]
