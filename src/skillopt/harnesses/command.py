"""A program of yours as the target: `cmd: ./agent --fast`, with JSON on its stdin and its stdout."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from skillopt.errors import Fault
from skillopt.harnesses._own_agent import OwnAgent, OwnAgentWork
from skillopt.harnesses.port import Setup
from skillopt.models.port import ModelSpec
from skillopt.process import run_process
from skillopt.programs.events import kind_of
from skillopt.tasks.commands import argv_of, files_hash, found, raised_at
from skillopt.transcripts.records import decoded

_MOST_OUTPUT = 16 << 20


class CommandAgent(OwnAgent):
    """Starts the program once a task.

    In: `{"task": {"id", "prompt", "instructions", "files", "images"}, "skill", "skill_folder", "workspace"}`.
    Out: `{"answer", "trace", "usage"}` as the last line of stdout; `trace` and `usage` may be left out. It
    runs in the working directory with the person's environment, and ends with us.
    """

    name = "command"

    def __init__(self, setup: Setup) -> None:
        argv = argv_of(setup.model.name.removeprefix("cmd:"), "target")
        self._argv, self._shown = found(argv, "target"), shlex.join(argv)
        self._timeout, self._cwd = setup.model.timeout, Path.cwd()
        super().__init__(setup, version=self.identity(setup.model), place=self._shown)

    @staticmethod
    def identity(spec: ModelSpec) -> str:
        """Changes with the files that the command line names."""
        return f"command {files_hash(found(argv_of(spec.name.removeprefix('cmd:'), 'target'), 'target'))}"

    async def call(self, work: OwnAgentWork) -> object:
        """Start it, and read the object it printed."""
        asked = work.told([*map(str, work.task.files)], [*map(str, work.images)])
        asked |= {"skill_folder": str(work.folder), "workspace": str(work.workspace)}
        done = await run_process(
            self._argv,
            input=json.dumps(asked).encode(),
            env=os.environ,
            cwd=self._cwd,
            timeout=self._timeout,
            max_output=_MOST_OUTPUT,
            guarded=True,
            belongings=work.workspace.parent,
        )
        if done.code != 0:
            last = done.stderr.strip() or done.stdout.strip() or b"it said nothing"
            said = last.decode(errors="replace")
            kind, where = kind_of(said[-500:]), raised_at(said)
            detail = f"{self._shown} ended with code {done.code}: {said[-500:]}"
            raise Fault(kind or "contract", detail, where="" if kind else where)
        if done.cut:
            raise Fault("contract", f"{self._shown} printed more than {_MOST_OUTPUT >> 20} MB")
        return self._read(done.stdout.decode(errors="replace").strip())

    def _read(self, text: str) -> object:
        """The object that was printed, alone or as the last line: agents like to talk before it."""
        for part in (text, text.rpartition("\n")[2]):
            if isinstance(value := decoded(part), dict):
                return value
        raise Fault(
            "contract",
            f'{self._shown} printed {text[-200:]!r}; print one line {{"answer": "..."}} at the end',
        )


PLUGIN = CommandAgent
