"""The journal of a proposal: decides what happened to it, so that a crash at any moment leaves something that
can be finished or undone.

One line a step, sealed, on the disk before the next step begins. A *move* is one adopt, undo or discard. It
is *begun* before anything is written, *committed* when every new text lies ready beside its target, and
*done* when all of them are in place. A move that was begun and not committed never happened; one that was
committed is finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.changes._seal import Key
from skillopt.changes.proposal import purpose
from skillopt.errors import UsageError

JOURNAL = "journal.jsonl"
Action = Literal["adopt", "undo", "discard"]


class FileMove(BaseModel):
    """What a move does to one target: from one content to another, over a file that lies ready beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    """Name of the target in the proposal."""
    changes: tuple[int, ...]
    """Changes of the proposal that the target gains, or loses by an undo."""
    old: str | None
    """Hash of what is there; None for no file."""
    new: str | None
    temporary: str
    """Name of the new text beside the target until it takes its place."""
    made: int = 0
    """How many folders the move makes; an undo takes them away again."""


class Entry(BaseModel):
    """One line: a step of a move."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    move: int
    step: Literal["begun", "committed", "done", "rolled_back"]
    time: datetime
    action: Action | None = None
    """These three are in the line that begins a move."""
    changes: tuple[int, ...] = ()
    files: tuple[FileMove, ...] = ()
    undoes: int | None = None
    left_out: tuple[str, ...] = ()
    """Targets that somebody else changed at the last moment: they were left as they are, and the move does
    not hold for them.
    """
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move, as far as it went."""

    number: int
    action: Action
    time: datetime
    changes: tuple[int, ...]
    files: tuple[FileMove, ...]
    undoes: int | None
    step: Literal["begun", "committed", "done", "rolled_back"]
    left_out: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it was interrupted."""
        return self.step in ("begun", "committed")

    @property
    def taken(self) -> frozenset[int]:
        """The changes for which it holds."""
        return frozenset(self.changes) - {
            change for file in self.files if file.target in self.left_out for change in file.changes
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a proposal stands after all its moves."""

    moves: tuple[Move, ...]
    adopted: frozenset[int]
    discarded: frozenset[int]

    @property
    def open(self) -> Move | None:
        """The move that was interrupted, if there is one: never more than the last."""
        return self.moves[-1] if self.moves and self.moves[-1].is_open else None

    @property
    def last_adoption(self) -> Move | None:
        """The last adoption that still holds, for undo."""
        return next(
            (move for move in reversed(self.moves) if move.action == "adopt" and move.taken & self.adopted),
            None,
        )


class Journal:
    """The journal file of one proposal. Only who holds the adoption lock may append."""

    def __init__(self, path: Path, id: str, key: Key) -> None:
        self.path = path
        self._purpose = purpose(id, "journal")
        self._key = key

    def read(self) -> tuple[Entry, ...]:
        """All whole lines. A last line that was torn by a crash never happened; any other bad line is refused
        by name.
        """
        return self._read()[0]

    def standing(self) -> Standing:
        """Where the proposal stands."""
        return standing(self.read())

    def append(self, entry: Entry) -> None:
        """Write a line and wait until the disk has it."""
        entries, whole = self._read()
        # Lines are numbered by what is sealed, so that none can be taken out of the middle, doubled or moved.
        line = json.dumps(
            self._key.sealed({"line": len(entries), "entry": entry.model_dump(mode="json")}, self._purpose),
            ensure_ascii=False,
        )
        try:
            self._write(line.encode() + b"\n", whole)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror or error}. Free some space, then run the"
                " command again."
            ) from error

    def _write(self, line: bytes, whole: int) -> None:
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new and hasattr(os, "O_DIRECTORY"):
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _read(self) -> tuple[tuple[Entry, ...], int]:
        """The entries, and how many bytes of the file hold them."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return (), 0
        entries: list[Entry] = []
        whole = 0
        while (end := data.find(b"\n", whole) + 1) > 0:
            entries.append(self._entry(data[whole:end], len(entries)))
            whole = end
        return tuple(entries), whole

    def _entry(self, line: bytes, number: int) -> Entry:
        try:
            body = self._key.opened(json.loads(line), self._purpose)
            if body is not None and body["line"] == number:
                return Entry.model_validate(body["entry"])
        except (ValueError, KeyError, RecursionError, ValidationError):
            pass  # said below, with the line
        raise UsageError(
            f"Line {number + 1} of {self.path} was not written by us, or was altered since. Nothing of this"
            " proposal is used any more; its backups lie beside the journal."
        )


def standing(entries: Sequence[Entry]) -> Standing:
    """Fold the lines of a journal."""
    moves: dict[int, Move] = {}
    for entry in entries:
        if entry.step == "begun":
            assert entry.action is not None, "the line that begins a move names its action"
            moves[entry.move] = Move(
                number=entry.move,
                action=entry.action,
                time=entry.time,
                changes=entry.changes,
                files=entry.files,
                undoes=entry.undoes,
                step="begun",
            )
        else:
            moves[entry.move] = replace(
                moves[entry.move], step=entry.step, left_out=entry.left_out, note=entry.note
            )
    adopted: frozenset[int] = frozenset()
    discarded: frozenset[int] = frozenset()
    for move in moves.values():
        if move.step != "done":
            continue
        if move.action == "adopt":
            adopted |= move.taken
        elif move.action == "undo":
            adopted -= move.taken
        else:
            discarded |= move.taken
    return Standing(moves=tuple(moves.values()), adopted=adopted, discarded=discarded)
