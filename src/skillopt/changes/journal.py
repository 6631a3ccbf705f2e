"""The journal of a state folder: every change of a person's files, noted before the first file changes.

It is one private file, replaced whole; beside it lies what each file held before. Every proposal has a
history in it. A change that a killed process left open is finished by the next command, or dropped where no
file had changed.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from skillopt.changes import StoredRecord
from skillopt.changes.files import FileChange, apply, changed_meanwhile, confined, digest, put_back
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, lock_privately, write_bytes

LOCK = "adopt.lock"
Action = Literal["adopt", "undo", "discard"]


class ChangedFile(StoredRecord):
    """What a change does to one file."""

    name: str
    """What a person calls the file, such as the target of a proposal."""
    path: Path
    edits: tuple[int, ...]
    """Edits of a proposal that the file gains, or loses by an undo."""
    old: str | None
    """Hash of what is there; None for no file."""
    new: str | None
    backup: str = Field(pattern=r"^\d+-\d+-[^/\\]+$")
    mode: int | None
    made: int
    """How many folders the change makes; an undo removes them again."""
    is_put: bool = False


class AppliedChange(StoredRecord):
    """One adopt, undo or discard, as far as it went."""

    action: Action
    reason: str
    """The proposal or the run behind the change, in words."""
    time: datetime
    edits: tuple[int, ...] = ()
    """The edits of a proposal that are meant."""
    roots: tuple[Path, ...] = ()
    """Folders of the person's, below which every file lies."""
    files: tuple[ChangedFile, ...] = ()
    is_open: bool = False
    """Set while files change: whoever finds it so was not there when the change was interrupted."""

    @property
    def taken(self) -> frozenset[int]:
        """The edits for which it holds: not those of files that somebody else changed at the last moment."""
        if self.is_open:
            return frozenset()
        return frozenset(self.edits) - {edit for file in self.files if not file.is_put for edit in file.edits}

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that are in place."""
        return tuple(file.path for file in self.files if file.is_put)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the files that are not, or not yet, in place."""
        return tuple(file.name for file in self.files if not file.is_put)

    def with_put(self, index: int) -> AppliedChange:
        """The same change with one more file in place."""
        files = list(self.files)
        files[index] = files[index].model_copy(update={"is_put": True})
        return self.model_copy(update={"files": tuple(files)})


class History(StoredRecord):
    """What is known of one proposal or run: every change, and of a proposal the hash of its file."""

    digest: str = ""
    changes: tuple[AppliedChange, ...] = ()
    replaced_by: str = ""
    """The newer proposal that took the place of this one, on which nothing was decided."""

    @property
    def standing(self) -> tuple[AppliedChange, ...]:
        """The adoptions that nobody took back, the oldest first, each with the files that still hold it."""
        found: list[AppliedChange] = []
        for change in self.changes:
            put = () if change.is_open else tuple(file for file in change.files if file.is_put)
            if change.action == "adopt" and put:
                found.append(change.model_copy(update={"files": put}))
            elif change.action == "undo" and found:
                back, last = {file.path for file in put}, found.pop()
                if left := tuple(file for file in last.files if file.path not in back):
                    found.append(last.model_copy(update={"files": left}))
        return tuple(found)

    @property
    def adopted(self) -> frozenset[int]:
        """Edits that are in the live files."""
        return frozenset(edit for change in self.standing for file in change.files for edit in file.edits)

    @property
    def discarded(self) -> frozenset[int]:
        """Edits that the person decided against."""
        return frozenset(edit for one in self.changes if one.action == "discard" for edit in one.taken)

    @property
    def open(self) -> AppliedChange | None:
        """The change that was interrupted, if there is one: never more than the last."""
        return self.changes[-1] if self.changes and self.changes[-1].is_open else None

    def plus(self, change: AppliedChange) -> History:
        """The history with one more change."""
        return self.model_copy(update={"changes": (*self.changes, change)})


class _File(StoredRecord):
    format: Literal["skillopt.changes.journal.v1"] = "skillopt.changes.journal.v1"
    folder: str
    """The state folder it was made in. A repository that brings a whole state folder cannot know this."""
    histories: dict[str, History] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeJournal:
    """The journal of a state folder. A subject is the folder of a proposal or a run below the state folder.
    Only who holds `alone` may change anything.
    """

    state: Path
    patience: float = 10.0
    """Seconds to wait for another process that changes files at this moment."""
    hook: Callable[[str], None] = field(default=lambda step: None, repr=False)
    """Called after every step that is on the disk; a test may end the process there."""

    @property
    def path(self) -> Path:
        return self.state / "journal.json"

    def backups(self, subject: str) -> Path:
        """The folder of what the files of a subject held before each change."""
        return self.state / subject / "backups"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the state folder. Raises `RunConflict` when another process keeps it too long."""
        with lock_privately(self.state / LOCK, self.patience):
            yield

    def history(self, subject: str) -> History:
        """What is known of a subject; an empty history where nothing is."""
        return self.load().get(subject, History())

    def apply(
        self,
        subject: str,
        action: Action,
        files: Sequence[FileChange],
        *,
        reason: str,
        time: datetime,
        edits: Collection[int] = (),
        remedy: str = "Look at it, then try again.",
    ) -> AppliedChange:
        """Keep a copy of what each file holds, write the change down, and replace file by file.

        Raises `UsageError`, with nothing changed, for a file that no longer holds what was read. A file that
        somebody changes after that is left as it is.
        """
        for one in files:
            _refuse_changed(one, remedy)
        history, backups = self.history(subject), self.backups(subject)
        if history.open is not None:
            raise UsageError(
                f"The last {history.open.action} of {reason} was interrupted and is not settled."
            )
        changed = [
            ChangedFile(
                name=one.name or one.file.name,
                path=one.file.path,
                edits=one.edits,
                old=digest(one.before),
                new=digest(one.after),
                backup=f"{len(history.changes) + 1:03d}-{number}-{one.file.name}",
                mode=one.mode,
                made=one.made,
            )
            for number, one in enumerate(files, 1)
        ]
        for file, one in zip(changed, files, strict=True):
            for data, path in ((one.before, backups / file.backup), (one.after, _coming(backups, file))):
                if data is not None:
                    with as_usage_error(path, "written", "Nothing was changed."):
                        write_bytes(path, data, mode=0o600)
        self.hook("backed up")
        for one in files:
            if one.file.content() != one.before:
                raise changed_meanwhile(one)
        change = AppliedChange(
            action=action,
            reason=reason,
            time=time,
            edits=tuple(sorted(edits)),
            roots=tuple(dict.fromkeys(one.file.root for one in files)),
            files=tuple(changed),
            is_open=True,
        )
        return self._put(subject, history, change, files)

    def undo(self, subject: str, *, reason: str, time: datetime, force: bool) -> AppliedChange:
        """Give the files of the last standing adoption what they held before it.

        A file that was changed since is refused; with `force` its text is kept among the backups.
        """
        last = self.history(subject).standing[-1]
        files = []
        for file in last.files:
            place = confined(file.path, last.roots)
            now = place.content()
            if digest(now) not in (file.old, file.new) and not force:
                what = "changed" if now is not None else "removed"
                raise UsageError(
                    f"{file.path} was {what} since it was adopted; nothing was taken back. --force puts back"
                    " what it held before and keeps your text among the backups."
                )
            before = self._kept(self.backups(subject) / file.backup, file.old)
            files.append(
                FileChange(
                    file=place, before=now, after=before, made=file.made, name=file.name, edits=file.edits
                )
            )
        edits = {edit for file in last.files for edit in file.edits}
        return self.apply(subject, "undo", files, reason=reason, time=time, edits=edits)

    def recover(self) -> tuple[str, ...]:
        """Finish or drop what a killed process left open, and say in words what was done."""
        done: list[str] = []
        for subject, history in self.load().items():
            if history.open is not None:
                try:
                    done.append(self._settle(subject, history, history.open))
                except UsageError as error:  # it does not stand in the way of the others
                    done.append(f"{history.open.reason} was left as it is: {error}")
        return tuple(done)

    def _settle(self, subject: str, history: History, change: AppliedChange) -> str:
        """Drop an interrupted change of which no file has changed; finish any other."""
        before, backups = history.model_copy(update={"changes": history.changes[:-1]}), self.backups(subject)
        files = [
            FileChange(
                file=confined(file.path, change.roots),
                before=self._kept(backups / file.backup, file.old),
                after=self._kept(_coming(backups, file), file.new),
                mode=file.mode,
                made=file.made,
            )
            for file in change.files
        ]
        what = f"{change.reason}: an interrupted {change.action} was"
        if not _has_begun(change, files):
            for one in files:
                put_back(one)
            self._drop(subject, before, change)
            return f"{what} rolled back; no file had changed."
        left_out = ", ".join(self._put(subject, before, change, files).left_out)
        rest = f" {left_out} had been edited meanwhile and stays as it is." if left_out else ""
        return f"{what} finished.{rest}"

    def _put(
        self, subject: str, history: History, change: AppliedChange, files: Sequence[FileChange]
    ) -> AppliedChange:
        """Write the change down, replace the files one by one, and write down that it is done."""
        self.note(subject, history.plus(change))

        def note(one: FileChange) -> None:
            nonlocal change
            index = files.index(one)
            change = change.with_put(index)
            self.note(subject, history.plus(change))
            self.hook(f"replaced {change.files[index].name}")

        try:
            self.hook("noted")
            apply(files, leave_changed=True, on_put=note)
        except BaseException:  # also on Ctrl-C: a change of which nothing was written is none
            if not _has_begun(change, files):
                self._drop(subject, history, change)
            raise
        change = change.model_copy(update={"is_open": False})
        self._drop(subject, history.plus(change), change)
        self.hook("done")
        return change

    def _drop(self, subject: str, history: History, change: AppliedChange) -> None:
        """Note a history in which a change is no longer open, and remove what only its recovery needed."""
        self.note(subject, history)
        for file in change.files:
            _coming(self.backups(subject), file).unlink(missing_ok=True)

    def _kept(self, path: Path, hash: str | None) -> bytes | None:
        """A text that a change left. Raises `UsageError` where it is gone or is another one."""
        if hash is None:
            return None
        with as_usage_error(path, "read", "Put it back, or take the change back by hand."):
            data = path.read_bytes()
        if digest(data) != hash:
            raise UsageError(f"{path} is damaged; take the change back by hand.")
        return data

    def load(self) -> Mapping[str, History]:
        """Every history by its subject; none where nothing was proposed or changed yet.

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
            raise self._refused("cannot be read as what was decided and changed") from error
        if read.folder != os.path.realpath(self.state):
            raise self._refused(
                f"was made in {read.folder}, not here. If you moved it yourself, say so in its line `folder`"
            )
        return read.histories

    def save(self, histories: Mapping[str, History]) -> None:
        """Write all of it, whole or not at all."""
        file = _File(folder=os.path.realpath(self.state), histories=dict(histories))
        with as_usage_error(self.path, "written", "Free some space, then run the command again."):
            write_bytes(self.path, file.model_dump_json(indent=1).encode() + b"\n", mode=0o600)

    def note(self, subject: str, history: History) -> None:
        """Replace what is known of one subject."""
        self.save({**self.load(), subject: history})

    def _refused(self, problem: str) -> UsageError:
        return UsageError(
            f"{self.path} {problem}. Until then no proposal and no adoption counts as yours, and nothing of"
            " them is used."
        )


def _coming(backups: Path, file: ChangedFile) -> Path:
    """What a file is to hold, kept until the change is done."""
    return backups / f"{file.backup}.new"


def _refuse_changed(change: FileChange, remedy: str) -> None:
    found, path = change.file.read(), change.file.path
    if (None if found is None else found.data) != change.before:
        what = "appeared" if change.before is None else "was changed"
        if found is None:
            what = "is not there any more"
        raise UsageError(f"{path} {what} since this was decided and is not overwritten. {remedy}")
    if found is not None and not found.mode & 0o200:
        raise UsageError(
            f"{path} is read-only (mode {found.mode:03o}), so nothing was written. chmod u+w allows it."
        )


def _has_begun(change: AppliedChange, files: Sequence[FileChange]) -> bool:
    """Whether any file has changed. One that was put and is no longer so was edited since."""
    live = [digest(one.file.content()) for one in files]
    return any(
        one == file.new or (file.is_put and one != file.old)
        for file, one in zip(change.files, live, strict=True)
    )
