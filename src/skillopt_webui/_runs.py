"""Where runs may lie: which folders are read as runs, each under an id that does not tell its path."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.runs.reader import is_run

DEPTH = 8
"""How far below a root runs are looked for."""
_SKIPPED = {"node_modules", "__pycache__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """A run folder below one of the roots."""

    id: str
    """Sixteen hexadecimal digits; an address holds these and never a path."""
    folder: Path
    name: str
    """The path below its root, for people."""
    root: Path


@dataclass(slots=True)
class Roots:
    """The folders the user named. A run is found by walking them, never by joining a path from an address."""

    folders: Sequence[Path]
    _known: dict[str, RunPlace] = field(default_factory=dict)

    def runs(self) -> list[RunPlace]:
        """Every run below the roots as it is now, each once. Links are not followed."""
        found: dict[Path, RunPlace] = {}
        for root in self.folders:
            for folder in _walk(root):
                found.setdefault(_real(folder), _place(root, folder))
        self._known = {place.id: place for place in found.values()}
        return list(found.values())

    def find(self, id: str) -> RunPlace:
        """The run of an id. Raises `UsageError` for an id that is nobody's, whatever it looks like."""
        place = self._known.get(id)
        if place is None or not is_run(place.folder):
            self.runs()
            place = self._known.get(id)
        if place is None:
            raise UsageError(
                f"There is no run {id[:40]!r} below {self.spoken}. The list of runs has those that are there."
            )
        return place

    def id_of(self, folder: Path) -> str | None:
        """The id of a folder that is, or will be, a run below a root; None for one that lies elsewhere."""
        for root in self.folders:
            if _real(folder).is_relative_to(_real(root)):
                return _place(root, folder).id
        return None

    @property
    def spoken(self) -> str:
        """The roots in words."""
        return ", ".join(str(folder) for folder in self.folders) or "no folder"


def _place(root: Path, folder: Path) -> RunPlace:
    name = _real(folder).relative_to(_real(root)).as_posix()
    digest = hashlib.sha256(f"{root.absolute()}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()
    return RunPlace(id=digest[:16], folder=folder, name=root.name if name == "." else name, root=root)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _walk(folder: Path, depth: int = 0) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return  # what lies inside a run is its own
    if depth > DEPTH:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # not there yet, or not ours to read
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
            yield from _walk(Path(entry.path), depth + 1)
