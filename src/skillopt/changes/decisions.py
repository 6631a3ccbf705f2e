"""The decisions file of a state folder: which proposals are the person's own, and what was decided on each.

It is one private file, replaced whole. A *move* is one adopt, undo or discard. A move that changes files is
written down before the first of them changes and marked done after the last, so that the next command can
finish or drop what a killed one left.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from skillopt.changes import StoredRecord
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, lock_privately, write_bytes

LOCK = "adopt.lock"
Action = Literal["adopt", "undo", "discard"]


class FileMove(StoredRecord):
    """What a move does to one target."""

    target: str
    edits: tuple[int, ...]
    """Edits that the target gains, or loses by an undo."""
    old: str | None
    """Hash of what is there; None for no file."""
    new: str | None
    made: int = 0
    """How many folders the move makes; an undo removes them again."""
    is_put: bool = False


class Move(StoredRecord):
    """One adopt, undo or discard, as far as it went."""

    action: Action
    time: datetime
    edits: tuple[int, ...]
    files: tuple[FileMove, ...] = ()
    is_open: bool = False
    """Set while files change: whoever finds it so was not there when the move was interrupted."""

    @property
    def taken(self) -> frozenset[int]:
        """The edits for which it holds: not those of files that somebody else changed at the last moment."""
        if self.is_open:
            return frozenset()
        return frozenset(self.edits) - {edit for file in self.files if not file.is_put for edit in file.edits}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Targets that are not, or not yet, in place."""
        return tuple(file.target for file in self.files if not file.is_put)

    def with_put(self, index: int) -> Move:
        """The same move with one more file in place."""
        files = list(self.files)
        files[index] = files[index].model_copy(update={"is_put": True})
        return self.model_copy(update={"files": tuple(files)})


class ProposalRecord(StoredRecord):
    """What is known of one proposal: the hash of its file, and every move."""

    digest: str
    moves: tuple[Move, ...] = ()
    replaced_by: str = ""
    """The newer proposal that took the place of this one, on which nothing was decided."""

    @property
    def adopted(self) -> frozenset[int]:
        """Edits that are in the live files."""
        adopted: frozenset[int] = frozenset()
        for move in self.moves:
            if move.action == "adopt":
                adopted |= move.taken
            elif move.action == "undo":
                adopted -= move.taken
        return adopted

    @property
    def discarded(self) -> frozenset[int]:
        """Edits that the person decided against."""
        return frozenset(edit for move in self.moves if move.action == "discard" for edit in move.taken)

    @property
    def open(self) -> Move | None:
        """The move that was interrupted, if there is one: never more than the last."""
        return self.moves[-1] if self.moves and self.moves[-1].is_open else None

    @property
    def before_last(self) -> ProposalRecord:
        """The record without its last move."""
        return self.model_copy(update={"moves": self.moves[:-1]})

    def plus(self, move: Move) -> ProposalRecord:
        """The record with one more move."""
        return self.model_copy(update={"moves": (*self.moves, move)})

    @property
    def last_adoption(self) -> Move | None:
        """The last adoption that still holds, for undo."""
        return next(
            (move for move in reversed(self.moves) if move.action == "adopt" and move.taken & self.adopted),
            None,
        )


class _File(StoredRecord):
    format: Literal["skillopt.changes.decisions.v1"] = "skillopt.changes.decisions.v1"
    folder: str
    """The state folder it was made in. A repository that brings a whole state folder cannot know this."""
    proposals: dict[str, ProposalRecord] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The decisions file of a state folder. Only who holds `alone` may save."""

    state: Path
    patience: float = 10.0
    """Seconds to wait for another process that decides at this moment."""

    @property
    def path(self) -> Path:
        return self.state / "decisions.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the state folder. Raises `RunConflict` when another process keeps it too long."""
        with lock_privately(self.state / LOCK, self.patience):
            yield

    def load(self) -> Mapping[str, ProposalRecord]:
        """Every proposal of the person's, by id; none where no proposal was made yet.

        Raises `UsageError` for a file that others could have written, own or have put there.
        """
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._refused(f"cannot be read: {error.strerror or error}") from error
        if not stat.S_ISREG(found.st_mode):
            raise self._refused("is no regular file")
        if sys.platform != "win32":
            if found.st_uid != os.geteuid():
                raise self._refused("belongs to another user")
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise self._refused(
                    f"has mode {stat.S_IMODE(found.st_mode):03o}, so it may have come with files that are not"
                    f" yours. If you know that it is your own: chmod 600 {self.path}"
                )
        try:
            read = _File.model_validate_json(self.path.read_bytes())
        except (OSError, ValidationError) as error:
            raise self._refused("cannot be read as what was decided on proposals") from error
        if read.folder != os.path.realpath(self.state):
            raise self._refused(
                f"was made in {read.folder}, not here. If you moved it yourself, say so in its line `folder`"
            )
        return read.proposals

    def save(self, proposals: Mapping[str, ProposalRecord]) -> None:
        """Write all of it, whole or not at all."""
        told = _File(folder=os.path.realpath(self.state), proposals=dict(proposals))
        with as_usage_error(self.path, "written", "Free some space, then run the command again."):
            write_bytes(self.path, told.model_dump_json(indent=1).encode() + b"\n", mode=0o600)

    def note(self, id: str, record: ProposalRecord) -> None:
        """Replace what is known of one proposal."""
        self.save({**self.load(), id: record})

    def _refused(self, problem: str) -> UsageError:
        return UsageError(
            f"{self.path} {problem}. Until then no proposal counts as yours, and nothing of them is used."
        )
