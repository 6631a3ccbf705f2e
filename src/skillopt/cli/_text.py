"""Decides how a difference of two skills is coloured on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from skillopt.printable import printable
from skillopt.skill.diff import unified

_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def print_diff(console: Console, before: str, after: str, name_before: str, name_after: str) -> None:
    """Print a unified diff, or that there is none."""
    difference = unified(before, after, name_before, name_after)
    if not difference:
        console.print(Text(f"{name_before} and {name_after} are equal."), soft_wrap=True)
    print_unified(console, difference)


def print_unified(console: Console, difference: str) -> None:
    """Print a unified diff in its colours."""
    for line in difference.split("\n")[:-1]:
        style = next((style for prefix, style in _STYLES if line.startswith(prefix)), "")
        console.print(Text(printable(line), style=style), soft_wrap=True)
