"""Command lines that a person hands over: parsed, found, and identified by the files they name."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from skillopt.errors import ConfigError
from skillopt.tasks.functions import innermost

_HASHED_UP_TO = 1 << 24
_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+)', re.MULTILINE)


def argv_of(command: str | Sequence[str], what: str) -> tuple[str, ...]:
    """The arguments of a command line, which is to be a `what`, as they are written."""
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise ConfigError(
            f"The {what} command {command!r} cannot be read: {error}. Close the quotes, or give a list of"
            " arguments."
        ) from error
    if not argv or not all(isinstance(part, str) for part in argv) or not argv[0]:
        raise ConfigError(f"The {what} command {command!r} names no program. Write it after 'cmd:'.")
    return tuple(argv)


def found(argv: Sequence[str], what: str) -> tuple[str, ...]:
    """The arguments with the program's path in front; it must be there now."""
    program = shutil.which(argv[0])
    if program is None:
        raise ConfigError(
            f"The {what} command {shlex.join(argv)!r}: there is no program {argv[0]!r}. Install it, or"
            " correct the path."
        )
    return (program, *argv[1:])


def raised_at(said: str) -> str:
    """File and line where a program failed, by a traceback of Python that it printed; else empty."""
    return innermost((name, int(line)) for name, line in _FRAME.findall(said))


def files_hash(argv: Sequence[str]) -> str:
    """Hash of the files the command line names: a script that was edited is another program."""
    sha = hashlib.sha256()
    for part in argv:
        path = Path(part)
        try:
            if path.is_file() and path.stat().st_size <= _HASHED_UP_TO:
                sha.update(path.read_bytes())
        except (OSError, ValueError):  # an argument that is no path, or one we may not read
            continue
    return sha.hexdigest()[:16]
