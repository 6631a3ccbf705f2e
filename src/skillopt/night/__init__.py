"""Nights: a person's own sessions become tasks, a small training run on them becomes a proposal."""

from __future__ import annotations

from skillopt.night.cleaning import Cleaned, clean
from skillopt.night.gather import Around, gather, read_sessions, since_of, with_tasks
from skillopt.night.night import Ended, run_night
from skillopt.night.preview import Preview, preview
from skillopt.night.roles import REMEDY, Roles, roles_of
from skillopt.night.settings import SleepSettings, find_settings, read_settings
from skillopt.night.state import Home, NightRecord, ProjectState, SkillRow
from skillopt.night.work import Nobody, Watcher

__all__ = [
    "REMEDY",
    "Around",
    "Cleaned",
    "Ended",
    "Home",
    "NightRecord",
    "Nobody",
    "Preview",
    "ProjectState",
    "Roles",
    "SkillRow",
    "SleepSettings",
    "Watcher",
    "clean",
    "find_settings",
    "gather",
    "preview",
    "read_sessions",
    "read_settings",
    "roles_of",
    "run_night",
    "since_of",
    "with_tasks",
]
