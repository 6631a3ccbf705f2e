"""Receipts: decides what is remembered of an install, so that it can be taken back byte for byte."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.changes._actions import Action
from skillopt.errors import RunConflict, UsageError
from skillopt.files import lock, write_bytes
from skillopt.plugins._agent import Place, Scope

_FOLDER = "plugins"
_LOCK = "install.lock"
_PAUSE = 0.05


class Touched(BaseModel):
    """One file: what it was, what it became, and by what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Action
    before: str | None
    """Its bytes in base64; None where there was no file."""
    after: tuple[str, ...]
    """Digests of what was written, the last one last. An earlier one counts too: an update may have been
    killed half-way.
    """

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.action.path)

    @property
    def old(self) -> bytes | None:
        """Its bytes before us."""
        return None if self.before is None else base64.b64decode(self.before)

    def is_as_left(self, data: bytes) -> bool:
        """Whether the file is as we left it."""
        return digest(data) in self.after

    @classmethod
    def of(cls, action: Action, before: bytes | None, after: bytes, known: Touched | None) -> Touched:
        """From bytes, and what was known of the file until now."""
        digests = dict.fromkeys([*(known.after[-1:] if known else ()), digest(after)])
        return cls(
            action=action,
            before=None if before is None else base64.b64encode(before).decode(),
            after=tuple(digests),
        )


class Receipt(BaseModel):
    """One install of one agent at one place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    agent: str
    scope: Scope
    root: str
    version: str
    """Of SkillOpt, when it was installed."""
    installed: datetime
    touched: tuple[Touched, ...]
    folders: tuple[str, ...] = ()
    """Folders that were made for it, outermost first."""


def digest(data: bytes) -> str:
    """What tells two contents apart."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """All receipts of the user, below the folder of SkillOpt's state. They hold earlier bytes, so nobody else
    may read them.
    """

    state: Path
    patience: float = 10.0
    """Seconds to wait for another install to end."""

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.state / _FOLDER

    def path(self, agent: str, scope: Scope, root: str) -> Path:
        """The file of one install."""
        return self.folder / f"{agent}-{'user' if scope == 'user' else digest(root.encode())[:12]}.json"

    def load(self, agent: str, place: Place) -> Receipt | None:
        """The receipt of an install; None where there is none."""
        path = self.path(agent, place.scope, str(place.root))
        return _read(path) if path.is_file() else None

    def all(self) -> list[Receipt]:
        """Every install there is."""
        return [_read(path) for path in sorted(self.folder.glob("*.json"))]

    def save(self, receipt: Receipt) -> None:
        """Write it down, for the user's eyes only."""
        path = self.path(receipt.agent, receipt.scope, receipt.root)
        write_bytes(path, receipt.model_dump_json(indent=2).encode() + b"\n", mode=0o600)

    def remove(self, receipt: Receipt) -> None:
        """Forget an install."""
        self.path(receipt.agent, receipt.scope, receipt.root).unlink(missing_ok=True)

    def bare(self) -> list[Path]:
        """Folders of ours, outermost first, in which there is nothing but the lock: whoever made them has
        gone meanwhile.
        """
        if [path.name for path in self.folder.iterdir()] != [_LOCK]:
            return []
        return [self.folder] if len(list(self.state.iterdir())) > 1 else [self.state, self.folder]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock while files change; another install is waited for. Where nothing is installed
        afterwards, nothing of it stays.
        """
        made = missing(self.folder)
        try:
            with ExitStack() as held:
                self._lock(held)
                try:
                    yield
                finally:
                    self._clear()  # while the lock is ours: later its file may be another's
        finally:
            if (
                sys.platform == "win32"
            ):  # where no file is removed that is open, so ours not before now, and another's never
                self._clear()
            remove_empty(made)

    def _clear(self) -> None:
        if not any(self.folder.glob("*.json")):
            with suppress(OSError):
                self._lock_file.unlink()

    @property
    def _lock_file(self) -> Path:
        return self.folder / _LOCK

    def _lock(self, held: ExitStack) -> None:
        """Enter the lock. One that was removed while we waited for it is no lock any more: others hold the
        new file of that name.
        """
        last = time.monotonic() + self.patience
        while True:
            for folder in missing(self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            try:
                with ExitStack() as tried:
                    tried.enter_context(lock(self._lock_file))
                    if self._lock_file.read_text(encoding="ascii") == str(os.getpid()):
                        held.push(tried.pop_all())
                        return
            except FileNotFoundError:  # removed with its folder by the last one who went
                pass
            except RunConflict:
                if time.monotonic() > last:
                    raise
            time.sleep(_PAUSE)


def missing(folder: Path) -> list[Path]:
    """The folders that would have to be made for this one, outermost first."""
    return [one for one in (*reversed(folder.parents), folder) if not one.exists()]


def remove_empty(folders: list[Path]) -> list[Path]:
    """Remove the folders that are empty, innermost first, and return those that stay."""
    stay = []
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # something is in it, or the system holds on to it
            stay.append(folder)
    return stay[::-1]


def _read(path: Path) -> Receipt:
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{path} cannot be read as the receipt of an install ({type(error).__name__}). What it says is"
            " needed to take the install back; without it, move it away and take the files out by hand."
        ) from error
