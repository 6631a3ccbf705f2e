"""The resources of a project: its runs and its skills, by ids that lead nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from skillopt.agents import skill_folders
from skillopt.errors import UnknownName, UsageError
from skillopt.runs import comparison
from skillopt.runs.reader import RunList, is_part, is_run, read_view
from skillopt.skill.document import SKILL_FILE

RUNS = "skillopt://runs"
JSON, MARKDOWN = "application/json", "text/markdown"
TEMPLATES = {
    "skillopt://runs/{id}/summary": ("run_summary", JSON, "How a run stands, or how it ended."),
    "skillopt://runs/{id}/best_skill": ("run_best_skill", MARKDOWN, "The best skill a run has found so far."),
    "skillopt://runs/{id}/report": (
        "run_report",
        MARKDOWN,
        "The report of a run: verdicts, scores, spending.",
    ),
    "skillopt://skills/{name}": ("skill", MARKDOWN, "A skill of the project, by its name."),
}
_OF_A_RUN = re.compile(r"skillopt://runs/([0-9a-f]{12})/(summary|best_skill|report)")
_OF_A_SKILL = re.compile(r"skillopt://skills/([^/?#]+)")
_OUTPUTS = "outputs"
_MOST_BYTES = 4 << 20


def listed(project: Path) -> Iterator[tuple[str, str, str, str]]:
    """Every resource of a project: address, name, media type, meaning."""
    yield RUNS, "runs", JSON, "The runs of this project."
    for id, folder in _runs(project).items():
        for template, (name, kind, about) in TEMPLATES.items():
            if "{id}" in template:
                label = f"{folder.relative_to(project)} {name.removeprefix('run_')}"
                yield template.replace("{id}", id), label, kind, about
    for name in _skills(project):
        yield f"skillopt://skills/{quote(name, safe='')}", name, MARKDOWN, "A skill of this project."


def read(uri: str, project: Path) -> tuple[str, str]:
    """Media type and text of a resource; raises where there is none of that name."""
    if uri == RUNS:
        return (JSON, _json({"runs": run_rows(project)}))
    if run := _OF_A_RUN.fullmatch(uri):
        runs = _runs(project)
        if run[1] not in runs:
            raise UnknownName("run here", run[1], runs)
        return _of_a_run(runs[run[1]], run[2], project)
    if skill := _OF_A_SKILL.fullmatch(uri):
        skills = _skills(project)
        name = unquote(skill[1])
        if name not in skills:
            raise UnknownName("skill of this project", name, skills)
        return (MARKDOWN, _text(skills[name]))
    raise UsageError(f"There is no resource {uri!r}. Known: {RUNS}, {', '.join(TEMPLATES)}.")


def run_rows(project: Path, folders: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The runs below some folders of a project in figures, the newest first."""
    rows = [_row(id, folder, project) for id, folder in _runs(project, folders or [_OUTPUTS]).items()]
    return sorted(rows, key=lambda row: str(row.get("changed", "")), reverse=True)


def _of_a_run(folder: Path, what: str, project: Path) -> tuple[str, str]:
    from skillopt_webui.report import summary

    if what == "summary":
        path, row = folder / "summary.json", _row(_id(folder, project), folder, project)
        if path.is_file() and row["status"] != "running":  # what it says is of an earlier session then
            return (JSON, _text(_inside(path, folder)))
        return (JSON, _json(row))
    if what == "best_skill":
        path = folder / "best_skill.md"
        if not path.is_file():
            raise UsageError(
                f"{folder.relative_to(project)} has no best skill yet: nothing was measured so far."
            )
        return (MARKDOWN, _text(_inside(path, folder)))
    return (MARKDOWN, summary(read_view(folder)))


def _runs(project: Path, folders: Sequence[str] = (_OUTPUTS,)) -> dict[str, Path]:
    """The training runs below some folders of the project, by an id that says nothing of a path."""
    tops = [project / folder for folder in folders]
    below = {path.parent for top in tops if _is_inside(top, project) for path in top.rglob("events.jsonl")}
    return {
        _id(folder, project): folder
        for folder in sorted(below)
        if not is_part(folder) and _is_inside(folder, project) and is_run(folder)
    }


def _id(folder: Path, project: Path) -> str:
    name = folder.relative_to(project).as_posix()
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _row(id: str, folder: Path, project: Path) -> dict[str, Any]:
    """One run in figures."""
    row: dict[str, Any] = {"id": id, "folder": str(folder.relative_to(project))}
    resources = [f"{RUNS}/{id}/{what}" for what in ("summary", "best_skill", "report")]
    run = RunList().read([folder]).get(folder)
    if isinstance(run, str):  # one damaged folder must not hide the others
        return {**row, "status": "damaged", "why": run}
    figures = {"status": "stopped"} if run is None else comparison.row(run)
    return {**figures, **row, "resources": resources}


def _skills(project: Path) -> dict[str, Path]:
    """The skills of a project by name: folders with SKILL.md where agents look for them."""
    found: dict[str, Path] = {}
    for folder in (*skill_folders(), "skills"):
        for path in sorted((project / folder).glob(f"*/{SKILL_FILE}")):
            if path.is_file() and _is_inside(path, project):
                found.setdefault(path.parent.name, path)
    return found


def _inside(path: Path, folder: Path) -> Path:
    if not _is_inside(path, folder):
        raise UsageError(f"{path.name} is a link that leads out of its run; it is not read.")
    return path


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path.name} is larger than a resource may be ({len(data):,} bytes).")
    return data.decode("utf-8", "replace")


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)
