"""How the installed SkillOpt is called from elsewhere: which program that is, and how a shell is told."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """SkillOpt as a command with its first words, and whether it will be called on Windows."""

    argv: tuple[str, ...]
    windows: bool = False

    def line(self, *words: str) -> str:
        """A command for the usual shell: sh, or cmd on Windows."""
        join = subprocess.list2cmdline if self.windows else shlex.join
        return join([*self.argv, *words])

    def powershell(self, *words: str) -> str:
        """A command for PowerShell, where a quoted program has to be called by `&`."""
        return " ".join(["&", *("'" + word.replace("'", "''") + "'" for word in (*self.argv, *words))])


def this_program(
    executable: Path, scripts: Iterable[Path], *, windows: bool, version: tuple[int, ...]
) -> Program:
    """The program that runs now, by its whole path: it works from any folder and whatever is on PATH.

    The script that pip, pipx or uv put beside the interpreter comes first. `python -m skillopt` would look
    into the working directory for its modules before anywhere else, which a foreign repository must not
    decide; `-P` forbids that from Python 3.11 on.
    """
    name = "skillopt.exe" if windows else "skillopt"
    for folder in (executable.parent, *scripts):
        if (folder / name).is_file():
            return Program(argv=(str(folder / name),), windows=windows)
    safe = ("-P",) if version >= (3, 11) else ()
    return Program(argv=(str(executable), *safe, "-m", "skillopt"), windows=windows)


def by_name(*, windows: bool) -> Program:
    """Whatever `skillopt` is on PATH where it is called: for files that several machines share."""
    return Program(argv=("skillopt",), windows=windows)
