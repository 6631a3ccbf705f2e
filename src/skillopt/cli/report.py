"""`skillopt report`: write a run as one HTML page that works offline, and a Markdown summary beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from skillopt.changes.best_skill import is_adopted
from skillopt.cli._console import tell
from skillopt.cli._options import Json, NewestRun, option, simple
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, check_links_stay, write_text
from skillopt.runs.reader import find_run, read_facts
from skillopt.runs.tasks import compare_tasks
from skillopt_webui.report import page, summary

PANEL, PLACE = "Look at runs", 3
_OURS = "SkillOpt report"
"""Stands near the top of every report; a file without it is somebody else's."""


def report(
    run: NewestRun = None,
    out: Annotated[
        Path | None, option("--out", "Where the page goes; by default RUN/report.html.", "FILE.html")
    ] = None,
    json: Json = False,
) -> None:
    """Write a run as one offline HTML page, and a Markdown summary beside it. A run at work goes on."""
    run = find_run(run or Path("outputs"))
    check_links_stay(run)
    target = run / "report.html" if out is None else out
    facts = read_facts(run)
    _check(target)
    beside = target.with_suffix(".md")
    for path, text in (
        (target, page(facts, compare_tasks(run, facts), is_adopted=is_adopted(run))),
        (beside, summary(facts)),
    ):
        with as_usage_error(path, "written", "Name another file with --out."):
            write_text(path, text, durable=False)
    tell({"html": str(target), "markdown": str(beside)}, [str(target), str(beside)], json=json)


add = simple(report)


def _check(target: Path) -> None:
    """Only an earlier report is written over: the Markdown could land on a README or the best skill."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{target} is no name for a page: --out takes a file that ends in .html.")
    for path in (target, target.with_suffix(".md")):
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name another file with --out.")
        if path.exists() and _OURS not in path.read_bytes()[:2000].decode("utf-8", "replace"):
            raise UsageError(
                f"{path} is there already and is no report of ours; nothing was changed. Name another file"
                " with --out."
            )
