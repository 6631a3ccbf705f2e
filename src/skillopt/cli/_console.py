"""What commands print on: text of others never steers the terminal, and a broken output ends no work."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterable
from typing import IO, Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skillopt.evaluation.significance import TONES, Significance
from skillopt.redact.printable import printable

COLOURS = {"good": "green", "warn": "yellow", "bad": "red", "plain": ""}

_LABEL = re.compile(r" +(\S+ {2,})?|\d+:[\d:]+ ")
"""What the further lines of a wrapped line are set under: an indent with or without a word, or the time."""

_WORD = re.compile(r"\S+\s*")


class SafeConsole(Console):
    """A rich console that shows control characters inside printed text as symbols."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def say(self, text: str | Text, style: str = "") -> None:
        """Print a sentence without markup, as `say` does."""
        say(self, Text(text, style=style) if isinstance(text, str) else text)


def say(console: Console, text: Text) -> None:
    """Print lines: wrapped at words on a terminal, under their label if they have one; whole elsewhere, for
    programs such as `grep`. A word longer than a line, such as a path, is never broken.
    """
    for line in text.split("\n", allow_blank=True):
        found = _LABEL.match(line.plain)
        indent = found.end() if found and 2 * found.end() < console.width else 0
        if not console.is_terminal or cell_len(line.plain) <= console.width:
            console.print(line, soft_wrap=True)
            continue
        label, rest = line.divide([indent])
        breaks, used = list[int](), 0
        for word in _WORD.finditer(rest.plain):
            if used and used + cell_len(word.group().rstrip()) > console.width - indent:
                breaks.append(word.start())
                used = 0
            used += cell_len(word.group())
        for number, piece in enumerate(rest.divide(breaks)):
            piece.rstrip()
            console.print(Text.assemble(label if number == 0 else " " * indent, piece), soft_wrap=True)


def coloured(found: Significance) -> str:
    """The style of what a measurement proves."""
    return COLOURS[TONES[found]] or "dim"


def open_console(*, stderr: bool = False) -> SafeConsole:
    """A console on stdout, or on stderr for progress and warnings."""
    return SafeConsole(stderr=stderr, highlight=False)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line; a program that reads it gets exactly this text where it holds no control characters."""
    typer.echo(printable(text), err=err)


def print_json(data: Any) -> None:
    """One JSON value on stdout."""
    echo(json.dumps(data, indent=2, ensure_ascii=False, default=str).encode("utf-8", "replace").decode())


def tell(data: Any, lines: Iterable[str], *, json: bool) -> None:
    """Print what a command found: one JSON value for programs, or lines for people."""
    if json:
        print_json(data)
        return
    for line in lines:
        echo(line)


class LastingStream:
    """A text stream whose failing writes are dropped: a closed pipe, a full disk or a lost terminal must not
    end work that is being paid for. `trouble` remembers what went wrong first.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.trouble: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
        except ValueError:  # closed by somebody else in this process
            pass
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)
        except ValueError:
            pass

    def _give_up(self, error: OSError) -> None:
        """From now on this stream leads nowhere, also for what is still in its buffer."""
        self.trouble = self.trouble or error
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass  # no file descriptor to replace: writes keep failing and keep being dropped


def guard_streams() -> None:
    """Make stdout and stderr last as long as the work, in whatever encoding the terminal has.

    File descriptors 0 to 2 that are closed lead to nowhere: a database that got number 1 would be printed to.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open until the process ends
        if isinstance(stream, LastingStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, LastingStream(stream))


def os_trouble(error: OSError) -> str:
    """What the system refused, and of which file; of a rename, the file that it was for."""
    named = error.filename2 or error.filename
    return f"{named}: {error.strerror}" if named else str(error.strerror or error)


def lost_output() -> str:
    """Why what a command printed did not arrive, in words; empty where it did, or where the reader left."""
    trouble = getattr(sys.stdout, "trouble", None)
    if trouble is None or trouble.errno in (errno.EPIPE, errno.EIO):
        return ""
    return trouble.strerror or str(trouble)
