"""The two-phase write: decides the order in which texts, backups and journal lines reach the disk, and how an
interrupted move ends.

Until the line *committed* is on the disk no target has changed, and a crash means that nothing happened.
After it every new text lies whole beside its target, and a crash means that the rest is still to be put in
place. Each target changes by one rename.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from skillopt.changes._place import Place
from skillopt.changes._seal import digest
from skillopt.changes.journal import Entry, FileMove, Journal
from skillopt.errors import UsageError
from skillopt.files import write_bytes

Hook: TypeAlias = Callable[[str], None]
"""Told of every step once it is on the disk; a test may end the process there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One target of a move: where it is, what is to happen, and the new content (None for no file)."""

    place: Place
    file: FileMove
    new: bytes | None


def carry_out(
    journal: Journal, begin: Entry, swaps: Sequence[Swap], backups: Path, *, now: datetime, hook: Hook
) -> tuple[str, ...]:
    """Carry out a move and return the targets that had to be left out. Raises, with nothing changed, before
    the commit.
    """
    journal.append(begin)
    try:
        hook("begun")
        for number, swap in enumerate(swaps, 1):
            _prepare(swap, backups / f"{begin.move:03d}-{number}-{swap.place.name}")
            hook(f"ready {swap.file.target}")
        for swap in swaps:
            found = swap.place.look()
            if digest(None if found is None else found.data) != swap.file.old:
                raise UsageError(
                    f"{swap.place.path} was changed at this moment by somebody else. Nothing was written;"
                    " look at it, then try again."
                )
    except (OSError, UsageError) as error:
        roll_back(journal, begin.move, swaps, now=now, note=str(error))
        if isinstance(error, OSError):
            raise UsageError(
                f"{error.filename or backups} cannot be written: {error.strerror or error}. Nothing was"
                " changed."
            ) from error
        raise
    except BaseException:
        # Also on Ctrl-C: before the commit nothing has happened, and nothing of ours is to stay in the user's
        # folders.
        roll_back(journal, begin.move, swaps, now=now, note="interrupted")
        raise
    journal.append(Entry(move=begin.move, step="committed", time=now))
    hook("committed")
    return finish(journal, begin.move, swaps, now=now, hook=hook)


def finish(
    journal: Journal, move: int, swaps: Sequence[Swap], *, now: datetime, hook: Hook
) -> tuple[str, ...]:
    """Put everything in place that is not there yet. What somebody else changed since the commit stays
    theirs, and is returned.
    """
    left_out: list[str] = []
    for swap in swaps:
        try:
            is_put = _put(swap)
        except (OSError, UsageError):
            # The place turned into a link or cannot be written any more: as with a text of somebody else's,
            # it is left as it is.
            is_put = False
        if not is_put:
            left_out.append(swap.file.target)
        hook(f"replaced {swap.file.target}")
    journal.append(Entry(move=move, step="done", time=now, left_out=tuple(left_out)))
    hook("done")
    return tuple(left_out)


def roll_back(journal: Journal, move: int, swaps: Sequence[Swap], *, now: datetime, note: str) -> None:
    """Take away what was laid ready; no target was touched."""
    for swap in swaps:
        with swap.place.folder() as folder:
            if folder is not None:
                folder.remove(swap.file.temporary)
        if swap.file.old is None:
            swap.place.remove_folders(swap.file.made)
    journal.append(Entry(move=move, step="rolled_back", time=now, note=note))


def _prepare(swap: Swap, backup: Path) -> None:
    """Keep what is there, and lay the new text ready beside it."""
    found = swap.place.look()
    if found is not None:
        write_bytes(backup, found.data, mode=0o600)
    if swap.new is None:
        return
    with swap.place.folder(make=True) as folder:
        assert folder is not None
        folder.write_new(swap.file.temporary, swap.new, None if found is None else found.mode)
        folder.sync()


def _put(swap: Swap) -> bool:
    """Whether the target now holds what the move is about, or did so before somebody edited it."""
    file, name = swap.file, swap.place.name
    with swap.place.folder(make=swap.new is not None) as folder:
        if folder is None:
            return True  # only a file that was to go away has no folder any more
        found = folder.look(name)
        live = digest(None if found is None else found.data)
        if live == file.new:
            folder.remove(file.temporary)
        elif live != file.old:
            # The rename takes the file that lies ready away: while it is still there, the target never had
            # the new text.
            was_put = swap.new is not None and not folder.holds(file.temporary)
            folder.remove(file.temporary)
            return was_put
        elif swap.new is None:
            folder.remove(name)
        else:
            ready = folder.look(file.temporary)
            if ready is None or ready.data != swap.new:
                folder.remove(file.temporary)
                folder.write_new(file.temporary, swap.new, None if found is None else found.mode)
            folder.replace(file.temporary, name)
    if file.new is None:
        swap.place.remove_folders(file.made)
    return True
