"""Replaces files of a person: each one whole or not at all, and only where it still holds what was read."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skillopt.changes.safe_file import SafeFile
from skillopt.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file, what it held when it was read, and what it is to hold; None where there is no file."""

    file: SafeFile
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    """The permissions of a new file; an old one keeps its own."""
    made: int = 0
    """How many folders were made for the file, and go with it."""
    durable: bool = True
    """Whether to wait until the disk has it. A new file that can be written again need not."""
    name: str = ""
    """What a person calls the file; empty for its own name."""
    edits: tuple[int, ...] = ()
    """Edits of a proposal that the file gains, or loses by an undo."""


def digest(data: bytes | None) -> str | None:
    """The hash that pins a file's content; None for a file that is not there."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def put(change: FileChange) -> bool:
    """Whether the file now holds `after`. False where it holds neither: then it is somebody else's and stays.

    Raises `OSError` where it cannot be written, and `UsageError` where a link or a folder took its place.
    """
    name = change.file.name
    with change.file.folder(make=change.after is not None) as folder:
        if folder is None:
            return True  # only a file that is to go away has no folder any more
        folder.remove(folder.temporary(name))
        found = folder.read(name)
        live = None if found is None else found.data
        if live not in (change.before, change.after):
            return False
        if live != change.after and change.after is None:
            folder.remove(name)
        elif live != change.after and change.after is not None:
            mode = change.mode if found is None else found.mode
            folder.write(name, change.after, mode, durable=change.durable)
    if change.after is None:
        change.file.remove_folders(change.made)
    return True


def put_back(change: FileChange) -> None:
    """Give a file its content of before, where nobody else changed it meanwhile."""
    with contextlib.suppress(OSError, UsageError):
        put(replace(change, before=change.after, after=change.before))


def apply(
    changes: Sequence[FileChange],
    *,
    leave_changed: bool = False,
    put: Callable[[FileChange], bool] = put,
    on_put: Callable[[FileChange], None] = lambda change: None,
) -> list[FileChange]:
    """Make all changes, or none: whatever stops it, Ctrl-C too, everything is put back before it is raised.

    A file that somebody changed since stops it as well; with `leave_changed` it is left and returned.
    """
    begun: list[FileChange] = []
    left: list[FileChange] = []
    try:
        for change in changes:
            begun.append(change)
            try:
                is_put = put(change)
            except UsageError:
                if not leave_changed:
                    raise
                is_put = False
            if is_put:
                on_put(change)
            elif leave_changed:
                left.append(begun.pop())
            else:
                raise changed_meanwhile(change)
    except BaseException as error:  # also on Ctrl-C: all files are changed, or none
        for change in reversed(begun):
            put_back(change)
        if isinstance(error, OSError):
            raise UsageError(
                f"{begun[-1].file.path} cannot be written: {error.strerror or error}. Nothing was changed;"
                " check the permissions of its folder, then try again."
            ) from error
        raise
    return left


def changed_meanwhile(change: FileChange) -> UsageError:
    """Why nothing is written where somebody else writes at the same moment."""
    return UsageError(
        f"{change.file.path} was changed at this moment by somebody else. Nothing was written; look at it,"
        " then try again."
    )
