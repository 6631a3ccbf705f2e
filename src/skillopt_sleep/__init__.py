"""Nights: sessions of a person become requests, requests that come back become tasks with a measure, and a
small training run on them becomes a proposal for the morning.

transcripts -> readings -> requests (their wording) -> mining (labels, measures) -> tasks -> targets -> plan
-> job -> training -> drafts -> proposal -> adoption (`skillopt.changes`).
"""

from __future__ import annotations

from skillopt_sleep.context import Cleanup, NightContext, clean, open_context, with_tasks
from skillopt_sleep.gather import check_night, gather, read_sessions, since_of
from skillopt_sleep.night import NightResult, Preview, find_tasks, preview, run_night
from skillopt_sleep.settings import REMEDY, NightSettings, Roles, find_settings, read_settings, roles_of
from skillopt_sleep.state import NightHome, ProjectState, project_id

__all__ = [
    "REMEDY",
    "Cleanup",
    "NightContext",
    "NightHome",
    "NightResult",
    "NightSettings",
    "Preview",
    "ProjectState",
    "Roles",
    "check_night",
    "clean",
    "find_settings",
    "find_tasks",
    "gather",
    "open_context",
    "preview",
    "project_id",
    "read_sessions",
    "read_settings",
    "roles_of",
    "run_night",
    "since_of",
    "with_tasks",
]
