"""Where a night takes place: the settings, the project, and the folders of the person."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from skillopt.errors import RunConflict, UsageError
from skillopt.files import expand_home
from skillopt.skill.document import SKILL_FILE
from skillopt.transcripts import Homes
from skillopt.transcripts.session import is_within
from skillopt_sleep.adoption import Adoption
from skillopt_sleep.job import NightJobs
from skillopt_sleep.plan import NightPlan
from skillopt_sleep.settings import NightSettings, Roles, find_settings, read_settings
from skillopt_sleep.state import NightHome, ProjectHome
from skillopt_sleep.targets import SkillPlaces, skill_places, target_of
from skillopt_sleep.tasks_file import TasksFile, read_tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class NightContext:
    """The project, the person's home with its transcripts, and where nights keep what they know."""

    settings: NightSettings
    project: Path
    homes: Homes
    home: NightHome
    tasks: TasksFile | None = None
    """Tasks that a person gave instead of sessions."""
    warnings: tuple[str, ...] = ()
    """What the reader of the settings should know."""

    @property
    def places(self) -> SkillPlaces:
        """Where the skills lie."""
        return skill_places(self.settings, self.project, self.homes.home, self.home.folder)

    def check_places(self) -> None:
        """Raise `UsageError` where what a night finds could not be kept or proposed: a state folder inside of
        what adoption may write to, folders that are not there, a named file that no proposal may be for. A
        named skill that is not there yet is begun.
        """
        places, named = self.places, self.settings.target_skill_path
        self.home.store.refuse_inside(places.roots)
        for root in self.settings.skill_roots:
            if not root.is_dir():
                raise UsageError(
                    f"There is no folder {root}, which --skill-root (skill_roots) names. Correct it."
                )
        if named is None:
            return
        named = named.absolute()
        folder = named.parent.parent if named.name == SKILL_FILE else named.parent
        if not folder.is_dir() and not is_within(str(named), self.project):
            raise UsageError(
                f"{named} is not there, and cannot be begun: there is no folder {folder}. Make it, or name"
                " another file with --target-skill-path."
            )
        target_of(named, (), places.roots)

    @property
    def kept(self) -> ProjectHome:
        """What nights keep for the project."""
        return self.home.project(self.project)

    def adoption(self, now: Callable[[], datetime]) -> Adoption:
        """Where the person decides on proposals, within what adoption may write."""
        return Adoption(store=self.home.store, roots=self.roots(), now=now, project=str(self.project))

    def jobs(self, roles: Roles, environ: Mapping[str, str]) -> NightJobs:
        """Makes the jobs of a night of the project."""
        return NightJobs(
            settings=self.settings,
            roles=roles,
            rollouts=self.kept.rollouts,
            environ=environ,
            cwd=self.project,
        )

    def roots(self) -> tuple[Path, ...]:
        """Where adoption may write: the skills of this project and of every other one that had a night."""
        every = [self, *(replace(self, project=one) for one in self.home.projects() if one != self.project)]
        return tuple(dict.fromkeys(root for context in every for root in context.places.roots))


def open_context(
    flags: Mapping[str, Any], *, home: Path, cwd: Path, environ: Mapping[str, str]
) -> NightContext:
    """The context of a command: the settings file with flags over it. Raises `UsageError` for bad ones."""
    read = read_settings(find_settings(home / ".skillopt-sleep"), flags)
    settings = read.settings
    project = (settings.invoked_project or cwd).absolute()
    if not project.is_dir():
        raise UsageError(
            f"There is no folder {project}. Name the project whose sessions are meant: --project."
        )
    if any("\ud800" <= char <= "\udfff" for char in str(project)):
        raise UsageError(
            f"The folder {str(project)!r} has bytes in its name that are no UTF-8, so nothing can be kept for"
            " it. Rename it."
        )
    return NightContext(
        settings=settings,
        project=Path(os.path.realpath(project)),
        homes=Homes(home=home, env=dict(environ), places=settings.places()),
        home=NightHome.of(settings, home),
        warnings=read.warnings,
    )


def with_tasks(context: NightContext, path: Path) -> NightContext:
    """The same context, with the tasks of a file instead of sessions.

    The file may name the skill they are for, where nobody else did and it lies in the project: it may come
    from anywhere.
    """
    settings = context.settings
    read = read_tasks(path, project=str(context.project), settings=settings)
    if read.target_skill_path and settings.target_skill_path is None:
        if not read.target_skill_path.isprintable():
            raise UsageError(
                f"{path} is for the skill {read.target_skill_path!r}, which is no path. Correct"
                " target_skill_path."
            )
        named = Path(os.path.realpath(context.project / expand_home(read.target_skill_path)))
        if not is_within(str(named), context.project):
            raise UsageError(
                f"{path} is for the skill {named}, outside the project. If that is meant, name it:"
                " --target-skill-path."
            )
        settings = settings.model_copy(update={"target_skill_path": named})
    return replace(context, settings=settings, tasks=read)


_LEAVING = ".removed-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What was taken away, or would be: proposals by id, run folders of nights, and the bytes they hold."""

    proposals: tuple[str, ...]
    folders: tuple[Path, ...]
    bytes: int
    notes: tuple[str, ...]


def clean(context: NightContext, *, before: datetime, dry: bool = False) -> Cleanup:
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
    return Cleanup(proposals=tuple(ids), folders=tuple(folders), bytes=size, notes=tuple(notes))


def _run_folders(kept: ProjectHome, before: datetime) -> Iterator[Path]:
    """The run folders of nights that ended, or were left, before this time."""
    state = kept.load()
    for number in range(1, state.night + 1):
        folder = kept.night(number)
        if number == state.open or not folder.is_dir() or folder.is_symlink():
            continue
        try:
            plan = NightPlan.load(folder)
        except UsageError:  # what cannot be read is not known to be old
            continue
        if (plan.ended or plan.started) < before:
            yield from sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())


def _decided(context: NightContext, before: datetime) -> Iterator[str]:
    store = context.home.store
    made = store.decisions(None)
    last_adopted = {one.target.path: one.proposal for one in made if one.decision == "adopted"}.values()
    for one in store.load_all().proposals:
        times = [each.time for each in made if each.proposal == one.id]
        is_over = one.state in ("adopted", "discarded") and times and max(times) < before
        if is_over and one.id not in last_adopted:
            yield one.id


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
