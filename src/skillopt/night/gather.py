"""What lies before a night: reads the sessions of a project, mines them, and decides which skills they are
about.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from skillopt.changes.proposal import Cost
from skillopt.errors import UsageError
from skillopt.night import pin
from skillopt.night.mine import Mined, MineSettings, mine, standing_of
from skillopt.night.mining import mined_by_model
from skillopt.night.roles import Roles
from skillopt.night.settings import SleepSettings, expanded
from skillopt.night.state import Home
from skillopt.night.targets import Aim, Ground, aims, ground
from skillopt.night.tasks_file import TasksFile, read_tasks
from skillopt.redact import redact_transcript
from skillopt.transcripts import Homes, harvest, pick
from skillopt.transcripts._harvest import MOST_SESSIONS
from skillopt.transcripts.session import Harvest, Session, is_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Where a night takes place: the project, the person's home with its transcripts, and where nights keep
    what they know.
    """

    settings: SleepSettings
    project: Path
    homes: Homes
    home: Home
    tasks: TasksFile | None = None
    """Tasks that a person gave instead of sessions."""

    @property
    def ground(self) -> Ground:
        """Where the skills lie."""
        return ground(self.settings, self.project, self.homes.home, self.home.folder)

    def roots(self) -> tuple[Path, ...]:
        """Where adoption may write: the folders of skills of this project and of every other one that had a
        night.
        """
        every = [self.ground.roots]
        for project in self.home.projects():
            if project != self.project:
                every.append(ground(self.settings, project, self.homes.home, self.home.folder).roots)
        return tuple(dict.fromkeys(root for roots in every for root in roots))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What there is to learn from, and the skills it is about."""

    harvest: Harvest
    sessions: tuple[Session, ...]
    """Those of the project, out of all that were read."""
    mined: Mined
    aims: tuple[Aim, ...]
    notes: tuple[str, ...]
    cost: Cost | None = None
    """What asking a model took; None where none was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMiner:
    """Who is asked about the sessions of a night, and where the replies are kept. `fresh` forgets what was
    read before a stop.
    """

    roles: Roles
    folder: Path
    terms: str
    environ: Mapping[str, str]
    fresh: bool = False


def since_of(settings: SleepSettings, now: datetime, next_since: datetime | None) -> datetime | None:
    """From when on sessions are read: the time to look back, or more where the last night was longer ago, so
    that none is missed.
    """
    if not settings.lookback_hours:
        return None
    since = now - timedelta(hours=settings.lookback_hours)
    return since if next_since is None else min(since, next_since)


def read_sessions(around: Around, since: datetime | None) -> tuple[Harvest, tuple[Session, ...]]:
    """All sessions of the sources that are to be read, and those of them that belong to the project."""
    settings = around.settings
    names = [name.strip() for name in settings.transcript_source.split(",") if name.strip()] or ["auto"]
    found = harvest(
        pick(names, around.homes),
        since,
        redact_transcript,
        most=settings.max_sessions_per_night or MOST_SESSIONS,
    )
    return found, tuple(
        session
        for session in found.sessions
        if settings.projects == "all" or _belongs(session.project, around.project)
    )


async def gather(around: Around, since: datetime | None, miner: ModelMiner | None = None) -> Gathered:
    """Read, mine and sort. Without a miner no model is asked and nothing is written; tasks from a file are
    taken as they are.
    """
    settings = around.settings
    if around.tasks is not None:
        return _from_file(around, around.tasks)
    begun = None if miner is None or miner.fresh else pin.load(miner.folder, miner.terms)
    found, sessions = read_sessions(around, since if begun is None else begun.since)
    if begun is not None:
        found, sessions = begun.of(found, sessions)
    plan, cost = mine_settings(settings), None
    mined = await mine(sessions, settings=plan)
    aimed, notes = aims(
        mined.tasks, settings, around.ground
    )  # a skill that cannot be worked on is refused before anything is paid
    if miner is not None and sessions:
        if begun is None:
            pin.save(miner.folder, miner.terms, since, found, sessions)
        mined, cost = await mined_by_model(
            sessions,
            plan,
            settings=settings,
            roles=miner.roles,
            folder=miner.folder,
            rollouts=around.home.project(around.project).rollouts,
            environ=miner.environ,
            cwd=around.project,
        )
        aimed, notes = aims(mined.tasks, settings, around.ground)
    return Gathered(
        harvest=found, sessions=sessions, mined=mined, aims=tuple(aimed), notes=tuple(notes), cost=cost
    )


def with_tasks(around: Around, path: Path) -> Around:
    """The same place, with the tasks of a file instead of sessions.

    The file may name the skill they are for, where nobody else did and it lies in the project: it may come
    from anywhere.
    """
    settings = around.settings
    read = read_tasks(path, project=str(around.project), settings=mine_settings(settings))
    if read.target_skill_path and settings.target_skill_path is None:
        if not read.target_skill_path.isprintable():
            raise UsageError(
                f"{path} is for the skill {read.target_skill_path!r}, which is no path. Correct"
                " target_skill_path."
            )
        named = Path(os.path.realpath(around.project / expanded(read.target_skill_path)))
        if not is_within(str(named), around.project):
            raise UsageError(
                f"{path} is for the skill {named}, outside the project. If that is meant, name it:"
                " --target-skill-path."
            )
        settings = settings.model_copy(update={"target_skill_path": named})
    return replace(around, settings=settings, tasks=read)


def _from_file(around: Around, file: TasksFile) -> Gathered:
    standing, note = standing_of(file.tasks, 0, MineSettings().min_val)
    aimed, notes = aims(file.tasks, around.settings, around.ground)
    if file.project and file.project != str(around.project):
        notes.append(f"{file.path} was written for {file.project}; its tasks are used for {around.project}.")
    mined = Mined(
        tasks=file.tasks, suggestions=(), standing=standing, note=f"{note} They are those of {file.path}."
    )
    return Gathered(
        harvest=Harvest(sessions=(), read=0), sessions=(), mined=mined, aims=tuple(aimed), notes=tuple(notes)
    )


def mine_settings(settings: SleepSettings) -> MineSettings:
    """How much a night mines and how it splits."""
    return MineSettings(
        max_tasks=settings.max_tasks_per_night,
        val_fraction=settings.val,
        test_fraction=settings.test_fraction,
        seed=settings.seed,
    )


def _belongs(folder: str, project: Path) -> bool:
    """Whether a session's folder is the project's or below it, also where the agent wrote it down by way of a
    link.
    """
    return is_within(folder, project) or (
        Path(folder).is_absolute() and is_within(os.path.realpath(folder), project)
    )
