"""Which program a rollout hands in, how it is run on a workbook, and how the target may try it before."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Mapping, Sequence

from skillopt.messages import Tool
from skillopt.process.sandbox import Ran, Sandbox
from skillopt.tasks.rollout import Trajectory
from skillopt.transcripts.records import decoded

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
        arguments = decoded(arguments)
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
    """The text; if it has more than `most` characters, only its beginning and its end."""
    half = most // 2
    left_out = f"\n[... {len(text) - 2 * half} characters left out ...]\n"
    return text if len(text) <= most else f"{text[:half]}{left_out}{text[-half:]}"


def _said(ran: Ran) -> str:
    text = (ran.stderr or ran.stdout).decode(errors="replace").strip()
    return f"\n{text[-FEEDBACK:]}" if text else ""


SHOWN = 6000
_MOST_FILES = 20
_LONGEST_COMMAND = 100_000
_TOOLS = (
    Tool.of(
        "bash",
        f"Run a shell command in the folder with {INPUT} and your files. What it leaves there is gone"
        " afterwards.",
        ["command"],
        command="The command, for example: python -c 'print(1)'",
    ),
    Tool.of(
        "write_file",
        f"Write a text file that stays. {SOLUTION} is the program that is handed in.",
        ["path", "content"],
        path=f"A plain file name such as {SOLUTION}",
        content="The whole text of the file.",
    ),
)


class Trial:
    """Mode `multi`: a reply's program is run on the first workbook; the first that runs through stands."""

    tools: Sequence[Tool] = ()

    def __init__(self, sandbox: Sandbox, workbook: bytes, max_turns: int) -> None:
        self.max_turns = max_turns
        self._sandbox = sandbox
        self._workbook = workbook

    async def hear(self, reply: str) -> str | None:
        """Run the program; what went wrong is told, never whether the cells are right."""
        code = code_in(reply)
        if code is None:
            return (
                "Your reply holds no block of Python. Reply with the whole program in one block that starts"
                " with ```python."
            )
        trouble = trouble_of(await run_code(self._sandbox, code, self._workbook))
        if trouble is None:
            return None
        return (
            f"Your program was run on the workbook and failed. {trouble}\n\nReply with the whole corrected"
            " program in one block."
        )

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """There are no tools here."""
        return f"There is no tool {name!r}. Reply with the program in one block of Python."

    async def close(self) -> None:
        """Do nothing: every run has already removed its own files."""


class SpreadsheetTools:
    """Mode `react`: a shell and a file to write, over the first workbook."""

    tools: Sequence[Tool] = _TOOLS

    def __init__(self, sandbox: Sandbox, workbook: bytes, max_turns: int) -> None:
        self.max_turns = max_turns
        self._sandbox = sandbox
        self._files = {INPUT: workbook, RUNNER: RUNNER_TEXT.encode()}

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """Do what the call says."""
        if name == "bash":
            return await self._bash(arguments.get("command"))
        if name == "write_file":
            return self._write(arguments)
        return f"There is no tool {name!r}. There are bash and write_file."

    async def close(self) -> None:
        """Every run cleaned up after itself."""

    async def _bash(self, command: object) -> str:
        text = command.encode(errors="replace") if isinstance(command, str) else b""
        if not text.strip() or b"\0" in text or len(text) > _LONGEST_COMMAND:
            return f"bash needs a text 'command' of at most {_LONGEST_COMMAND} bytes."
        shell = "bash" if shutil.which("bash", path="/usr/bin:/bin") else "sh"
        ran = await self._sandbox.run([shell, "-c", text.decode()], files=self._files)
        streams = [stream.decode(errors="replace") for stream in (ran.stdout, ran.stderr)]
        said = "\n".join(stream for stream in streams if stream.strip())
        end = f"stopped: over its limit of {ran.stopped}" if ran.stopped else f"exit code {ran.code}"
        return f"{clipped(said, SHOWN)}\n[{end}]".lstrip()

    def _write(self, arguments: Mapping[str, object]) -> str:
        file = written_file("write_file", arguments)
        if file is None:
            return (
                f"write_file needs as 'path' a plain file name such as {SOLUTION} (not {INPUT} or {RUNNER})"
                f" and a text 'content' of at most {MOST_CHARACTERS} characters. Nothing was written."
            )
        name, content = file
        if name != SOLUTION and name not in self._files and len(self._files) >= _MOST_FILES:
            return f"At most {_MOST_FILES} files are kept. Nothing was written."
        self._files[name] = content.encode(errors="replace")
        return f"{name} is written ({len(content)} characters)."
