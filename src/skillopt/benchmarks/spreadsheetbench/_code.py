"""Decides which program a rollout handed in, and runs it on one workbook exactly as it is written."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping

from skillopt.sandbox import Ran, Sandbox
from skillopt.tasks.rollout import Trajectory

SOLUTION, INPUT, OUTPUT, RUNNER = "solution.py", "input.xlsx", "output.xlsx", "run.py"
FEEDBACK = 3000
"""Characters of an error that are told."""
MOST_CHARACTERS = 200_000
"""Of a file that is written with a tool."""
_FILE_NAME = re.compile(r"(?!\.+$)[\w.-]{1,100}", re.ASCII)
_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "py", "python3")
# The variables are given to the program, not written into it: its text stays as it is.
RUNNER_TEXT = f"""\
import os, runpy, sys
names = {{"INPUT_PATH": os.path.abspath({INPUT!r}), "OUTPUT_PATH": os.path.abspath({OUTPUT!r})}}
sys.path.insert(0, os.getcwd())
runpy.run_path({SOLUTION!r}, init_globals=names, run_name="__main__")
"""
_STOPPED = {
    "time": "It was still running when its time was up.",
    "memory": "It used too much memory.",
    "processes": "It started too much.",
    "files": "It wrote too many files.",
}
_LOST = {
    "missing": "wrote no file to OUTPUT_PATH",
    "too large": "wrote a file that is too large to OUTPUT_PATH",
    "unreadable": "left something else than a file at OUTPUT_PATH",
}


def solution_of(trajectory: Trajectory) -> str | None:
    """The program that a rollout ends with: written with a tool, in the last reply or as a file; or None."""
    written = None
    for message in trajectory.messages:
        for call in message.tool_calls:
            file = written_file(call.name, call.arguments)
            if file is not None and file[0] == SOLUTION:
                written = file[1]
    code = code_in(trajectory.answer) if written is None else written
    if code is None and SOLUTION in trajectory.files:
        return base64.b64decode(trajectory.files[SOLUTION]).decode(errors="replace")
    return code


def code_in(text: str) -> str | None:
    """The first block of Python in a reply, else the first block that says no language."""
    blocks = [(language.lower(), code) for language, code in _FENCE.findall(text)]
    for wanted in (_PYTHON, ("",)):
        for language, code in blocks:
            if language in wanted and code.strip():
                return str(code)
    return None


def written_file(tool: str, arguments: str | Mapping[str, object]) -> tuple[str, str] | None:
    """Name and content of what a call of `write_file` writes; None for another or a refused call."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    if tool != "write_file" or not isinstance(arguments, Mapping):
        return None
    path, content = arguments.get("path"), arguments.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return None
    name = path.removeprefix("./")
    fits = (
        _FILE_NAME.fullmatch(name) and name not in (INPUT, OUTPUT, RUNNER) and len(content) <= MOST_CHARACTERS
    )
    return (name, content) if fits else None


async def run_code(sandbox: Sandbox, code: str, workbook: bytes) -> Ran:
    """Run a program on a copy of a workbook in a fresh box, which may leave `output.xlsx`."""
    files = {SOLUTION: code.encode(errors="replace"), INPUT: workbook, RUNNER: RUNNER_TEXT.encode()}
    return await sandbox.run(["python", RUNNER], files=files, collect=[OUTPUT])


def trouble_of(ran: Ran) -> str | None:
    """What went wrong with a run, in words for whoever wrote the program; None when it left a workbook."""
    if ran.stopped is not None:
        return f"{_STOPPED[ran.stopped]}{_said(ran)}"
    if ran.code != 0:
        return f"It ended with an error (code {ran.code}).{_said(ran)}"
    if OUTPUT not in ran.files:
        return f"It ended without an error but {_LOST[ran.lost[OUTPUT]]}.{_said(ran)}"
    return None


def clipped(text: str, most: int) -> str:
    """Beginning and end of a text that is too long to be told."""
    half = most // 2
    left_out = f"\n[... {len(text) - 2 * half} characters left out ...]\n"
    return text if len(text) <= most else f"{text[:half]}{left_out}{text[-half:]}"


def _said(ran: Ran) -> str:
    text = (ran.stderr or ran.stdout).decode(errors="replace").strip()
    return f"\n{text[-FEEDBACK:]}" if text else ""
