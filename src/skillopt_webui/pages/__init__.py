"""The pages of the dashboard by name."""

from collections.abc import Mapping

from skillopt_webui._page import Page
from skillopt_webui.pages import launch, run, runs, sleep, versions

PAGES: Mapping[str, Page] = {
    "runs": runs.PAGE,
    "compare": runs.COMPARE,
    "launch": launch.PAGE,
    "sleep": sleep.PAGE,
    "run": run.PAGE,
    "skill": versions.SKILL_PAGE,
    "edits": versions.EDITS_PAGE,
    "tasks": versions.TASKS_PAGE,
}
