"""Decides what an install or an uninstall will change, before anything is: every file looked at, every
conflict named.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillopt.changes._actions import Block, Entry, Own
from skillopt.changes._receipt import Receipt, Touched, missing
from skillopt.errors import UsageError
from skillopt.plugins._agent import Place

State = Literal["create", "change", "unchanged", "remove", "restore", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one file. `before` and `after` are its bytes, None where there is no file."""

    path: Path
    state: State
    before: bytes | None
    after: bytes | None
    said: str = ""
    """What it is about, or why it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that happens, and what is remembered of it."""

    changes: tuple[Change, ...]
    touched: tuple[Touched, ...] = ()
    folders: tuple[Path, ...] = ()
    """Folders that are missing and will be made, outermost first."""

    @property
    def is_done(self) -> bool:
        """Whether everything is as it should be already."""
        return all(change.before == change.after for change in self.changes)


def plan_install(actions: Sequence[Own | Entry | Block], place: Place, receipt: Receipt | None) -> Plan:
    """What installing would do. Raises `UsageError`, naming all that is in the way, and then nothing is to be
    done.
    """
    known = {} if receipt is None else {one.action.path: one for one in receipt.touched}
    changes, touched, problems = [], [], []
    for action in actions:
        try:
            change, one = _install_one(action, place, known.pop(action.path, None))
        except UsageError as error:
            problems.append(str(error))
            continue
        changes.append(change)
        touched.append(one)
    if problems:
        raise UsageError("Nothing was written.\n" + "\n".join(problems))
    # What an earlier version put in and this one does not.
    changes += [_take_back(one) for one in known.values()]
    made = sorted(
        {folder for one in touched for folder in missing(one.path.parent)},
        key=lambda folder: len(folder.parts),
    )
    return Plan(changes=tuple(changes), touched=tuple(touched), folders=tuple(made))


def plan_uninstall(receipt: Receipt) -> Plan:
    """What taking an install back would do, the last file first."""
    return Plan(changes=tuple(_take_back(one) for one in reversed(receipt.touched)))


def _install_one(action: Own | Entry | Block, place: Place, known: Touched | None) -> tuple[Change, Touched]:
    path = Path(action.path)
    _require_inside(path, place)
    now = _look(path, ours=isinstance(action, Own))
    text = _decoded(path, now)
    if known is not None and now is not None and text is not None and not known.is_as_left(now):
        if action.is_in(text):  # somebody changed other parts of the file; ours is as it should be
            return _change(path, now, now, action), known.model_copy(update={"action": action})
        # Ours as it was goes out, and as it is now goes in; what the person changed stays in both.
        base = known.action.take_out(text, _decoded(path, known.old))
        text = text if base is None else base
        before = None if not text and known.old is None else text.encode()
    else:
        # As we left it: the file of before is what ours goes into, so an update leaves no trace of the old
        # version.
        before = known.old if known is not None and now is not None else now
        text = _decoded(path, before)
    after = action.put_in(text).encode()
    return _change(path, now, after, action), Touched.of(action, before, after, known)


def _take_back(one: Touched) -> Change:
    """A file as it was; or without our part, where somebody changed it since."""
    path = one.path
    try:
        now = _look(path, ours=False)
        if now is None or now == one.old:
            return Change(path=path, state="unchanged", before=now, after=now)
        if one.is_as_left(now):
            return Change(
                path=path, state="remove" if one.old is None else "restore", before=now, after=one.old
            )
        before = _decoded(path, one.old)
        if before is not None and one.action.is_in(before):  # it was there before us
            return Change(path=path, state="unchanged", before=now, after=now)
        left = one.action.take_out(_decoded(path, now) or "", before)
    except UsageError as error:  # what lies there now is nothing we wrote
        return Change(path=path, state="left", before=None, after=None, said=str(error))
    if left is None:
        why = (
            "our part of it is gone or was changed since, so it stays as it is; take out what you do not want"
        )
        if isinstance(one.action, Own):
            why = "it was changed since, so it stays; remove it if you do not want it"
        return Change(path=path, state="left", before=now, after=now, said=why)
    if not left and one.old is None:
        return Change(path=path, state="remove", before=now, after=None)
    return Change(
        path=path,
        state="change",
        before=now,
        after=left.encode(),
        said="it was changed since: only our part is taken out",
    )


def _change(path: Path, before: bytes | None, after: bytes, action: Own | Entry | Block) -> Change:
    state: State = "create" if before is None else "unchanged" if before == after else "change"
    return Change(path=path, state=state, before=before, after=after, said=action.summary())


def _require_inside(path: Path, place: Place) -> None:
    """In a project, which may be somebody else's, a link must not lead us out of it; in their home people
    link as they like.
    """
    if place.project is not None and not path.resolve().is_relative_to(place.project.resolve()):
        raise UsageError(
            f"{path} leads out of the project, to {path.resolve()}. It is left alone; remove the link, then"
            " install again."
        )


def _look(path: Path, *, ours: bool) -> bytes | None:
    """What a file holds; None where nothing is. Raises `UsageError` for what cannot be a file
    we may write.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError) as error:
        blocked = next((one for one in path.parents if one.exists() or one.is_symlink()), None)
        if blocked is not None and not blocked.is_dir():
            raise UsageError(
                f"{blocked} is in the way: {path} needs a folder there. Move it away, then install again."
            ) from error
        return None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}. Check the permissions of its folder."
        ) from error
    if stat.S_ISLNK(found.st_mode) and (ours or not path.exists()):
        raise UsageError(
            f"{path} is a link{'' if path.exists() else ' to nothing'}. It is left alone: move it away, then"
            " install again."
        )
    if not path.is_file():
        raise UsageError(f"{path} is no file. It is left alone: move it away, then install again.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error


def _decoded(path: Path, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8: {error.reason} at byte {error.start}. It is left alone: save it as UTF-8."
        ) from error
