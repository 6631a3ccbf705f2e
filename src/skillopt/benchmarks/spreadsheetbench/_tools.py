"""What the target can do before it hands in its program: try it and read the error, or use tools."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from skillopt.benchmarks.spreadsheetbench._code import (
    INPUT,
    MOST_CHARACTERS,
    RUNNER,
    RUNNER_TEXT,
    SOLUTION,
    clipped,
    code_in,
    run_code,
    trouble_of,
    written_file,
)
from skillopt.messages import Tool
from skillopt.sandbox import Sandbox

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
        """Every run cleaned up after itself."""


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
