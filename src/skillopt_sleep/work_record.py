"""Work in a repository as a text that is measured as an answer is: what was run, changed, committed, said.

    $ pytest -q                     a command
    ~ src/mailer.py                 a file that was changed
    * feat: retry the mailer        a commit message, its body indented below
    > The mailer tries twice now.   the words

Every line of it begins with one of these marks, so no words can pass for work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from skillopt.tasks.rollout import Trajectory
from skillopt.transcripts.session import ToolUse

COMMITS, TESTS = "commits", "tests"
"""What a worktree finds after the work: messages with a zero character between, and why tests fail."""
RUNS_TESTS = (
    r"(?!(?:git|echo|cat|ls|rg|grep|sed|find|head|tail|touch|mkdir|rm|cp|mv|cd)\b)[^;&|\n\"']*"
    r"(?:\b(?:pytest|unittest|tox|nox|jest|vitest|rspec|phpunit|ctest)\b|(?<![A-Za-z])tests?(?![A-Za-z]))"
)
"""How a command that runs tests begins."""
_SHELL = re.compile(r"bash|shell|exec|command|terminal|\bcmd\b", re.IGNORECASE)
_EDIT = re.compile(r"edit|write|patch|create|replace", re.IGNORECASE)
_PATCHED = re.compile(r"\*\*\* (?:Add|Update) File: (\S+)")
_MESSAGE = re.compile(
    r"""\bgit\s(?:[^|;&"']|"[^"]*"|'[^']*')*?\bcommit\b(?P<flags>[^|;&"']*?)\s(?:-[a-zA-Z]*m|--message)[=\s]*"""
    r"""(?:"\$\(cat\s*<<\s*'?"?(?P<end>\w+)'?"?\s(?P<here>.*?)\s(?P=end)\b|"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;&|]+))""",
    re.DOTALL,
)


def record_of_tools(tools: Iterable[ToolUse], answer: str, folder: str) -> str:
    """The record of work as a transcript of a session in `folder` tells it."""
    commands: list[str] = []
    files: dict[str, None] = {}
    commits: list[str] = []
    for tool in tools:
        if _SHELL.search(tool.name):
            commands.append(tool.about)
            for found in _MESSAGE.finditer(tool.about):
                if "--amend" in found[0] or "--amend" in tool.about[found.end() :]:
                    commits = commits[:-1]
                commits.append(next(text for text in found.group("here", "double", "single", "bare") if text))
        elif _EDIT.search(tool.name):
            for path in _PATCHED.findall(tool.about) or [tool.about]:
                files[path.removeprefix(f"{folder.rstrip('/')}/")] = None
    files |= dict.fromkeys(path for command in commands for path in _written(command))
    return _record(commands, files, commits, answer)


def record_of_rollout(done: Trajectory) -> str:
    """The same of a replay: files and commits are those that were found in the worktree."""
    commands = [
        command
        for message in done.messages
        for call in message.tool_calls
        if _SHELL.search(call.name) and (command := _command(call.arguments))
    ]
    commits = [one for one in done.outcome.get(COMMITS, "").split("\0") if one.strip()]
    return _record(commands, sorted(done.files), commits, done.answer)


def _record(commands: Iterable[str], files: Iterable[str], commits: Iterable[str], answer: str) -> str:
    lines = [f"$ {' '.join(command.split())}" for command in commands]
    lines += [f"~ {' '.join(path.split())}" for path in files]
    for message in commits:
        first, *body = message.strip().splitlines()
        lines += [f"* {first.strip()}", *(f"  {line.strip()}" for line in body if line.strip())]
    lines += [f"> {line}" for line in answer.strip().splitlines() if line.strip()]
    return "\n".join(lines)


def _written(command: str) -> list[str]:
    """Files that a shell command writes by way of `>`."""
    return re.findall(r"(?<![0-9&>])>{1,2}\s*(?!/)([\w./-]+)", command)


def _command(arguments: str) -> str:
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    fields = given if isinstance(given, Mapping) else {}
    command = next((fields[key] for key in ("command", "cmd", "script", "input") if key in fields), "")
    return " ".join(map(str, command)) if isinstance(command, list) else str(command)
