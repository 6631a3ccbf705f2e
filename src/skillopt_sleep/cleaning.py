"""Takes away what old nights left behind and nobody needs any more: decided proposals and run folders."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from skillopt.errors import RunConflict, UsageError
from skillopt_sleep.context import NightContext
from skillopt_sleep.plan import NightPlan
from skillopt_sleep.state import ProjectHome
from skillopt_sleep.status import decisions, status

_LEAVING = ".removed-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What was taken away, or would be: proposals by id, run folders of nights, and the bytes they hold."""

    proposals: tuple[str, ...]
    folders: tuple[Path, ...]
    size: int
    notes: tuple[str, ...]


def clean(context: NightContext, *, before: datetime, dry: bool = False) -> Cleaned:
    """Take away what was decided and ended before this time, of all projects. Nothing that is open, and no
    adoption that could be undone.

    What a night was about (`tonight.json`) stays, so that a task that was held out once never becomes one to
    learn from.
    """
    notes: list[str] = []
    home = context.home
    folders: list[Path] = []
    size = 0
    for project in home.projects():
        kept = home.project(project)
        try:
            with kept.alone():
                found = list(_run_folders(kept, before))
                size += sum(map(_size, found))
                folders += found
                _remove(() if dry else found)
        except (RunConflict, UsageError) as error:
            notes.append(f"{project} is left as it is: {error}")
    ids: list[str] = []
    if home.store.home.is_dir():
        with home.store.journal.alone():
            ids = list(_decided(context, before))
            found = [home.store.folder(id) for id in ids]
            size += sum(map(_size, found))
            _remove(() if dry else [*found, *home.store.home.glob(f"{_LEAVING}*")])
            home.store.forget(() if dry else ids)
    return Cleaned(proposals=tuple(ids), folders=tuple(folders), size=size, notes=tuple(notes))


def _run_folders(kept: ProjectHome, before: datetime) -> Iterator[Path]:
    """The run folders of nights that ended, or were left, before this time."""
    state = kept.load()
    ended = {record.number: record.ended for record in state.nights}
    for number in range(1, state.night + 1):
        folder = kept.night(number)
        if number == state.open or not folder.is_dir() or folder.is_symlink():
            continue
        try:
            when = ended.get(number) or NightPlan.load(folder).started
        except UsageError:  # what cannot be read is not known to be old
            continue
        if when < before:
            yield from sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())


def _decided(context: NightContext, before: datetime) -> Iterator[str]:
    store = context.home.store
    made = decisions(store, None)
    last_adopted = {one.path: one.proposal for one in made if one.decision == "adopted"}.values()
    for one in status(store, context.roots()).proposals:
        times = [each.time for each in made if each.proposal == one.proposal.id]
        is_over = one.state in ("adopted", "discarded") and times and max(times) < before
        if is_over and one.proposal.id not in last_adopted:
            yield one.proposal.id


def _remove(folders: tuple[()] | list[Path]) -> None:
    for folder in folders:
        leaving = folder if folder.name.startswith(_LEAVING) else folder.with_name(f"{_LEAVING}{folder.name}")
        if leaving != folder:
            folder.rename(leaving)  # at once: half a proposal is none
        shutil.rmtree(leaving, ignore_errors=True)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size if path.is_file() else 0
    return total
