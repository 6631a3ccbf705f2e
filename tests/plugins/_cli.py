"""Whether a command line is one: parsed by the program's own parser, and not run."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import typer
from typer.main import get_command

from skillopt.cli import app

_CODE = re.compile(r"^```[a-z]*\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)


@cache
def _parser(name: str | None) -> Any:
    return get_command(app(name))


def command_lines(text: str) -> list[str]:
    """Every command of ours in a Markdown text, in code spans and code blocks."""
    found = []
    for block, span in _CODE.findall(text):
        lines = (block or span).replace("{{skillopt}}", "skillopt").splitlines()
        found += [
            line.strip().removeprefix("$ ") for line in lines if re.match(r"\s*(\$ )?skillopt( |$)", line)
        ]
    return found


def options_alone(text: str) -> list[str]:
    """Every code span that is an option without its command."""
    return [span for _, span in _CODE.findall(text) if span.startswith("--")]


def complaint(line: str) -> str:
    """What the parser says of a command line; empty where it takes it."""
    words = shlex.split(line, comments=True)[1:]
    command = _parser(words[0] if words else None)
    whole, rest = command, list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        return "" if not rest or rest in (["--help"], ["--version"]) else f"no such command: {line}"
    command.callback = lambda **values: None
    try:
        whole.main(args=words, prog_name="skillopt", standalone_mode=False)
    except typer.Exit as ended:
        return "" if not ended.exit_code else f"ended with {ended.exit_code}"
    except Exception as error:  # noqa: BLE001 - a parser's own error classes differ between versions of typer
        return f"{type(error).__name__}: {error}"
    return ""
