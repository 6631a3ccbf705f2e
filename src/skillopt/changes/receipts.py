"""Receipts of installs: what each file held before, so that an install can be taken back byte for byte."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from skillopt.changes import StoredRecord
from skillopt.changes.actions import InstallAction
from skillopt.changes.apply import digest
from skillopt.errors import RunConflict, UsageError
from skillopt.files import lock, make_private_folder, write_bytes

Scope = Literal["user", "project"]
_LOCK = "install.lock"
_PAUSE = 0.05


class Install(StoredRecord):
    """Which install is meant: an agent's, for all projects of the person or for the one at `root`."""

    agent: str
    scope: Scope
    root: Path

    @property
    def file_name(self) -> str:
        """The name of its receipt."""
        where = "user" if self.scope == "user" else hashlib.sha256(str(self.root).encode()).hexdigest()[:12]
        return f"{self.agent}-{where}.json"


class TouchedFile(StoredRecord):
    """One file: what it was, what it became, and by what."""

    action: Annotated[InstallAction, Field(discriminator="kind")]
    before: str | None
    """What it held, byte for byte as UTF-8; None where there was no file."""
    after: tuple[str, ...]
    """Digests of what was written, the last one last; earlier ones count, as an update may be killed."""

    @property
    def path(self) -> Path:
        return Path(self.action.path)

    @property
    def old(self) -> bytes | None:
        """Its bytes before us."""
        return None if self.before is None else self.before.encode()

    def is_as_left(self, data: bytes) -> bool:
        """Whether the file is as we left it."""
        return digest(data) in self.after


class Receipt(Install):
    """One install of one agent at one place."""

    format: int = 1
    version: str
    """Of SkillOpt, when it was installed."""
    installed: datetime
    touched: tuple[TouchedFile, ...]
    folders: tuple[str, ...] = ()
    """Folders that were made for it, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """All receipts of the person, private because they hold earlier bytes of the person's files."""

    state: Path
    patience: float = 10.0
    """Seconds to wait for another install to end."""

    @property
    def folder(self) -> Path:
        return self.state / "plugins"

    def all(self) -> list[Receipt]:
        """Every install there is."""
        found = map(_read, sorted(self.folder.glob("*.json")))
        return [receipt for receipt in found if receipt is not None]

    def made_folders(self) -> Iterator[str]:
        """The folders that were made for any install; a damaged receipt is named by its own commands."""
        for path in sorted(self.folder.glob("*.json")):
            with suppress(UsageError):
                if (receipt := _read(path)) is not None:
                    yield from receipt.folders

    def load(self, install: Install) -> Receipt | None:
        """The receipt of an install, or None. Raises `UsageError` for one that is damaged."""
        return _read(self.folder / install.file_name)

    def save(self, receipt: Receipt) -> None:
        """Write it down, for the person's eyes only."""
        data = receipt.model_dump_json(indent=2).encode() + b"\n"
        write_bytes(self.folder / receipt.file_name, data, mode=0o600)

    def remove(self, install: Install) -> None:
        """Forget an install."""
        (self.folder / install.file_name).unlink(missing_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock while files change; another install is waited for. Where nothing is installed
        afterwards, the lock file and our empty folders go too.
        """
        with ExitStack() as held:
            self._lock(held)
            try:
                yield
            finally:
                self._clear()  # while the lock is ours: later its file may be another's
        if sys.platform == "win32":  # no file is removed there while it is open
            self._clear()

    def _clear(self) -> None:
        if not any(self.folder.glob("*.json")):
            with suppress(OSError):
                (self.folder / _LOCK).unlink()
                self.folder.rmdir()
                self.state.rmdir()

    def _lock(self, held: ExitStack) -> None:
        """Enter the lock. One that was removed while we waited is none: others hold the new file."""
        path, last = self.folder / _LOCK, time.monotonic() + self.patience
        while True:
            try:
                make_private_folder(self.folder)
                with ExitStack() as tried:
                    tried.enter_context(lock(path, mode=0o600))
                    if path.read_text(encoding="ascii") == str(os.getpid()):
                        held.push(tried.pop_all())
                        return
            except FileNotFoundError:
                pass  # the last one who went removed the lock, or a folder above it, at this moment
            except RunConflict:
                if time.monotonic() > last:
                    raise
            time.sleep(_PAUSE)


def missing(folder: Path) -> list[Path]:
    """The folders that would have to be made for this one, outermost first."""
    return [one for one in (*reversed(folder.parents), folder) if not one.exists()]


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that are empty, innermost first."""
    for folder in reversed(folders):
        with suppress(OSError):  # something is in it, or the system holds on to it
            folder.rmdir()


def _read(path: Path) -> Receipt | None:
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{path} cannot be read as the receipt of an install ({type(error).__name__}). What it says is"
            " needed to take the install back; without it, move it away and take the files out by hand."
        ) from error
