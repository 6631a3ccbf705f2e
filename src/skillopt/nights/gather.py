"""What lies before a night: reads the sessions of a project, mines them, and decides which skills they are about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from skillopt.nights.settings import SleepSettings
from skillopt.nights.state import Home
from skillopt.nights.targets import Aim, Ground, aims, ground
from skillopt.redact import redact_transcript
from skillopt.sleep.mine import Mined, MineSettings, mine
from skillopt.sleep.session import Harvest, Session, is_within
from skillopt.sleep.sources import Homes, harvest, pick
from skillopt.sleep.sources._harvest import MOST_SESSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Where a night takes place: the project, the person's home with its transcripts, and where nights keep what they know."""

    settings: SleepSettings
    project: Path
    homes: Homes
    home: Home

    @property
    def ground(self) -> Ground:
        """Where the skills lie."""
        return ground(self.settings, self.project, self.homes.home, self.home.folder)

    def roots(self) -> tuple[Path, ...]:
        """Where adoption may write: the folders of skills of this project and of every other one that had a night."""
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


def since_of(settings: SleepSettings, now: datetime, next_since: datetime | None) -> datetime | None:
    """From when on sessions are read: the time to look back, or more where the last night was longer ago, so that none is missed."""
    if not settings.lookback_hours:
        return None
    since = now - timedelta(hours=settings.lookback_hours)
    return since if next_since is None else min(since, next_since)


def read_sessions(around: Around, since: datetime | None) -> tuple[Harvest, tuple[Session, ...]]:
    """All sessions of the sources that are to be read, and those of them that belong to the project."""
    settings = around.settings
    names = [name.strip() for name in settings.transcript_source.split(",") if name.strip()] or ["auto"]
    found = harvest(pick(names, around.homes), since, redact_transcript, most=settings.max_sessions_per_night or MOST_SESSIONS)
    return found, tuple(session for session in found.sessions if settings.projects == "all" or _belongs(session.project, around.project))


async def gather(around: Around, since: datetime | None) -> Gathered:
    """Read, mine and sort; no model is asked and nothing is written."""
    settings = around.settings
    found, sessions = read_sessions(around, since)
    mined = await mine(
        sessions,
        settings=MineSettings(
            max_tasks=settings.max_tasks_per_night, val_fraction=settings.val, test_fraction=settings.test_fraction, seed=settings.seed
        ),
    )
    aimed, notes = aims(mined.tasks, settings, around.ground)
    return Gathered(harvest=found, sessions=sessions, mined=mined, aims=tuple(aimed), notes=tuple(notes))


def _belongs(folder: str, project: Path) -> bool:
    """Whether a session's folder is the project's or below it, also where the agent wrote it down by way of a link."""
    return is_within(folder, project) or (Path(folder).is_absolute() and is_within(os.path.realpath(folder), project))
