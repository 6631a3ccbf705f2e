"""The resources of a project: its runs and its skills, by ids that lead nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types

from skillopt.agents import skill_folders
from skillopt.errors import UnknownName, UsageError
from skillopt.runs import comparison
from skillopt.runs.reader import RunList, is_part, is_run, read_view
from skillopt.skill.document import SKILL_FILE
from skillopt_webui.report import summary

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


def listed(project: Path) -> list[types.Resource]:
    """Every resource of a project."""
    found = [_resource(RUNS, "runs", JSON, "The runs of this project.")]
    for id, folder in _runs(project).items():
        for template, (name, kind, about) in TEMPLATES.items():
            if "{id}" in template:
                label = f"{folder.relative_to(project)} {name.removeprefix('run_')}"
                found.append(_resource(template.replace("{id}", id), label, kind, about))
    for name in _skills(project):
        uri = f"skillopt://skills/{quote(name, safe='')}"
        found.append(_resource(uri, name, MARKDOWN, "A skill of this project."))
    return found


def _resource(uri: str, name: str, kind: str, about: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, mime_type=kind, description=about)


def read(uri: str, project: Path) -> tuple[str, str]:
    """Media type and text of a resource; raises where there is none of that name."""
    if uri == RUNS:
        rows = [_row(id, folder, project) for id, folder in _runs(project).items()]
        return (JSON, _json({"runs": rows}))
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


def _of_a_run(folder: Path, what: str, project: Path) -> tuple[str, str]:
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


def _runs(project: Path) -> dict[str, Path]:
    """The training runs below the project's `outputs`, by an id that says nothing of a path."""
    outputs = project / _OUTPUTS
    if not outputs.is_dir() or not _is_inside(outputs, project):
        return {}
    below = {path.parent for path in outputs.rglob("events.jsonl")}
    folders = sorted(folder for folder in below if not is_part(folder))
    return {
        _id(folder, project): folder for folder in folders if _is_inside(folder, project) and is_run(folder)
    }


def _id(folder: Path, project: Path) -> str:
    return hashlib.sha256(
        folder.relative_to(project).as_posix().encode("utf-8", "surrogateescape")
    ).hexdigest()[:12]


def _row(id: str, folder: Path, project: Path) -> dict[str, Any]:
    """One run in figures."""
    told: dict[str, Any] = {"id": id, "folder": str(folder.relative_to(project))}
    resources = [f"{RUNS}/{id}/{what}" for what in ("summary", "best_skill", "report")]
    run = RunList().read([folder]).get(folder)
    if isinstance(run, str):  # one damaged folder must not hide the others
        return {**told, "status": "damaged", "why": run}
    figures = {"status": "stopped"} if run is None else comparison.row(run)
    return {**figures, **told, "resources": resources}


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
