"""Installs files for an agent and takes them back: all of an install or nothing.

A receipt with the bytes of before is on disk from before the first change until the last one is back.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from skillopt.changes.actions import InstallAction, OwnFile
from skillopt.changes.apply import FileChange, apply, put
from skillopt.changes.receipts import Install, Receipt, Receipts, TouchedFile, missing, remove_empty
from skillopt.changes.safe_file import followed
from skillopt.errors import UsageError
from skillopt.files import as_usage_error

_LISTING = "'skillopt plugin list' shows what is."
PlannedState = Literal["create", "change", "unchanged", "remove", "restore", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """What happens to one file. `before` and `after` are its bytes, None where there is no file."""

    path: Path
    state: PlannedState
    before: bytes | None
    after: bytes | None
    said: str = ""
    """What it is about, or why it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """Everything that happens, and what is remembered of it."""

    files: tuple[PlannedFile, ...]
    touched: tuple[TouchedFile, ...] = ()
    folders: tuple[Path, ...] = ()
    """Folders that are missing and will be made, outermost first."""

    @property
    def is_done(self) -> bool:
        """Whether everything is as it should be already."""
        return all(file.before == file.after for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Installs agents' files and takes them back."""

    receipts: Receipts
    now: Callable[[], datetime]
    put: Callable[[FileChange], bool] = put

    def plan(self, install: Install, actions: Sequence[InstallAction]) -> InstallPlan:
        """What an install would do; nothing is written. Raises `UsageError`, naming all in the way."""
        receipt = self.receipts.load(install)
        known = {} if receipt is None else {one.action.path: one for one in receipt.touched}
        files, touched, problems = [], [], []
        for action in actions:
            try:
                file, one = _planned(action, install, known.pop(action.path, None))
            except UsageError as error:
                problems.append(str(error))
                continue
            files.append(file)
            touched.append(one)
        if problems:
            raise UsageError("Nothing was written.\n" + "\n".join(problems))
        # What an earlier version put in and this one does not.
        files += [_planned_back(one) for one in known.values()]
        folders = {folder for one in touched for folder in missing(one.path.parent)}
        made = sorted(folders, key=lambda folder: len(folder.parts))
        return InstallPlan(files=tuple(files), touched=tuple(touched), folders=tuple(made))

    def install(self, install: Install, actions: Sequence[InstallAction], version: str) -> InstallPlan:
        """Install, or bring an install up to date: all of it, or nothing and the error is raised."""
        if (plan := self.plan(install, actions)).is_done and self.receipts.load(install) is not None:
            return plan
        with self.receipts.alone():
            plan = self.plan(install, actions)  # looked at again, now that nobody else of us writes
            earlier = self.receipts.load(install)
            self.receipts.save(
                Receipt(
                    **dict(install),
                    version=version,
                    installed=self.now(),
                    touched=plan.touched,
                    folders=self._folders(plan),
                )
            )
            try:
                self._apply(plan)
            except BaseException:  # also on Ctrl-C: no receipt for what is not installed
                remove_empty(plan.folders)
                if earlier is None:
                    self.receipts.remove(install)
                else:
                    self.receipts.save(earlier)
                raise
        return plan

    def plan_back(self, install: Install) -> InstallPlan:
        """What an uninstall would do; nothing is written. Raises `UsageError` where nothing is installed."""
        return back(self._installed(install))

    def uninstall(self, install: Install) -> InstallPlan:
        """Take an install back: every file as it was or, if changed since, without our part."""
        self._installed(install)
        with self.receipts.alone():
            receipt = self._installed(install)  # read again, now that nobody else of us writes
            plan = back(receipt)
            self._apply(plan)
            self.receipts.remove(install)
            remove_empty([Path(folder) for folder in receipt.folders])
        return plan

    def _folders(self, plan: InstallPlan) -> tuple[str, ...]:
        """The folders that go with this install, outermost first: those it makes, and those that an install
        made in which its files lie as well. Whoever is uninstalled last finds them empty.
        """
        inside = {str(folder) for one in plan.touched for folder in one.path.parents}
        made = set(self.receipts.made_folders()) & inside
        return tuple(sorted({*made, *map(str, plan.folders)}, key=lambda folder: len(Path(folder).parts)))

    def _apply(self, plan: InstallPlan) -> None:
        changes = [
            FileChange(
                file=followed(file.path),
                before=file.before,
                after=file.after,
                # A new file of ours can be written again; a file that was there is the person's.
                durable=file.before is not None,
            )
            for file in plan.files
            if file.before != file.after
        ]
        apply(changes, put=self.put)

    def _installed(self, install: Install) -> Receipt:
        if (found := self.receipts.load(install)) is not None:
            return found
        others = [one for one in self.receipts.all() if one.agent == install.agent]
        elsewhere = [f"--project {one.root}" if one.scope == "project" else "--user" for one in others]
        hint = f"It is installed with {' and '.join(elsewhere)}." if others else _LISTING
        where = "for all projects" if install.scope == "user" else f"in {install.root}"
        raise UsageError(f"{install.agent} is not installed {where}. {hint}")


def back(receipt: Receipt) -> InstallPlan:
    """What taking an install back would do, the last file first."""
    return InstallPlan(files=tuple(_planned_back(one) for one in reversed(receipt.touched)))


def _planned(
    action: InstallAction, install: Install, known: TouchedFile | None
) -> tuple[PlannedFile, TouchedFile]:
    path = Path(action.path)
    # A link in a project, which may be somebody else's, must not lead out of it; at home people link freely.
    if install.scope == "project" and not path.resolve().is_relative_to(install.root.resolve()):
        raise UsageError(
            f"{path} leads out of the project, to {path.resolve()}. Remove the link, then install again."
        )
    now = _look(path, ours=isinstance(action, OwnFile))
    text = _decoded(path, now)
    if known is not None and now is not None and text is not None and not known.is_as_left(now):
        if action.is_in(text):  # somebody changed other parts of the file; ours is as it should be
            return _file(path, now, now, action), known.model_copy(update={"action": action})
        # Ours as it was goes out, and as it is now goes in; what the person changed stays in both.
        base = known.action.take_out(text, _decoded(path, known.old))
        text = text if base is None else base
        before = None if not text and known.old is None else text.encode()
    else:
        # As we left it: ours goes into the file of before, so an update leaves no trace of the old version.
        before = known.old if known is not None and now is not None else now
        text = _decoded(path, before)
    after = action.put_in(text).encode()
    digests = dict.fromkeys([*(known.after[-1:] if known else ()), hashlib.sha256(after).hexdigest()])
    return _file(path, now, after, action), TouchedFile(action=action, before=text, after=tuple(digests))


def _planned_back(one: TouchedFile) -> PlannedFile:
    """A file as it was; or without our part, where somebody changed it since."""
    path = one.path
    now: bytes | None = None

    def planned(state: PlannedState, after: bytes | None, said: str = "") -> PlannedFile:
        return PlannedFile(path=path, state=state, before=now, after=after, said=said)

    try:
        now = _look(path, ours=False)
        if now is None or now == one.old:
            return planned("unchanged", now)
        if one.is_as_left(now):
            return planned("remove" if one.old is None else "restore", one.old)
        before = _decoded(path, one.old)
        if before is not None and one.action.is_in(before):  # it was there before us
            return planned("unchanged", now)
        left = one.action.take_out(_decoded(path, now) or "", before)
    except UsageError as error:  # what lies there now is nothing we wrote
        now = None
        return planned("left", None, str(error))
    if left is None:
        why = "our part of it is gone or was changed since, so it stays; take out what you do not want"
        if isinstance(one.action, OwnFile):
            why = "it was changed since, so it stays; remove it if you do not want it"
        return planned("left", now, why)
    if not left and one.old is None:
        return planned("remove", None)
    return planned("change", left.encode(), "it was changed since: only our part is taken out")


def _file(path: Path, before: bytes | None, after: bytes, action: InstallAction) -> PlannedFile:
    state: PlannedState = "create" if before is None else "unchanged" if before == after else "change"
    return PlannedFile(path=path, state=state, before=before, after=after, said=action.summary())


def _look(path: Path, *, ours: bool) -> bytes | None:
    """What a file holds; None where nothing is. Raises `UsageError` for what we may not write."""
    trouble = ""
    with as_usage_error(path, "read", "Check its permissions and those of its folder."):
        try:
            if stat.S_ISLNK(path.lstat().st_mode) and (ours or not path.exists()):
                trouble = f"{path} is a link{'' if path.exists() else ' to nothing'}"
            elif not path.is_file():
                trouble = f"{path} is no file"
            else:
                return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            blocked = next((one for one in path.parents if one.exists() or one.is_symlink()), None)
            if blocked is None or blocked.is_dir():
                return None
            trouble = f"{blocked} is in the way: {path} needs a folder there"
    raise UsageError(f"{trouble}. It is left alone: move it away, then install again.")


def _decoded(path: Path, data: bytes | None) -> str | None:
    with as_usage_error(path, "read", ""):
        return None if data is None else data.decode("utf-8")
