"""Nights: a person's own sessions become tasks, a small training run on them becomes a proposal."""

from __future__ import annotations

from skillopt.nights.gather import Around, read_sessions, since_of
from skillopt.nights.night import Ended, Nobody, Watcher, run_night
from skillopt.nights.preview import Preview, preview
from skillopt.nights.roles import REMEDY, Roles, roles_of
from skillopt.nights.settings import SleepSettings, find_settings, read_settings
from skillopt.nights.state import Home, NightRecord, ProjectState

__all__ = [
    "REMEDY",
    "Around",
    "Ended",
    "Home",
    "NightRecord",
    "Nobody",
    "Preview",
    "ProjectState",
    "Roles",
    "SleepSettings",
    "Watcher",
    "find_settings",
    "preview",
    "read_sessions",
    "read_settings",
    "roles_of",
    "run_night",
    "since_of",
]
