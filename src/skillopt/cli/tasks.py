"""`skillopt tasks`: draft tasks with checks from a bare skill, and keep, edit or drop them one by one."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import echo, open_console, tell
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, group, option, simple
from skillopt.cli._progress import View
from skillopt.errors import UsageError, suggest
from skillopt.events import Notice, Sink
from skillopt.files import check_writable
from skillopt.redact import Scrubber
from skillopt.run.drafting import Rows, TaskDrafts, as_kept, draft_tasks, is_draft, read_rows, write_rows
from skillopt.runs import words
from skillopt.skill.folder import load_skill

PANEL, PLACE = "Train and measure", 0
HELP = "Draft tasks with checks from a bare skill, and keep, edit or drop them one by one."


def draft(
    given: Given,
    skill: Annotated[Path, typer.Argument(metavar="SKILL", help="A folder with SKILL.md, or an .md file.")],
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, help="Tasks to draft, at most.")
    ] = 20,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="JSONL file to add the drafts to.")
    ] = Path("tasks.jsonl"),
    json: Json = False,
) -> None:
    """Let the optimizer model write tasks with checks from a skill alone. Each check must pass a good sample
    and fail a bad one, and requests that are much alike are dropped.

    Drafts are not trained on until you keep them: skillopt tasks review FILE.
    """
    check_writable(out)
    rows = read_rows(out) if out.exists() else []
    resolved = _run.configure(given)
    known = [str(row.get("prompt", "")) for row in rows]
    folder = Path.cwd() / "outputs" / "drafted_tasks"
    view = View(open_console(stderr=True))
    with _run.scrubbed(Scrubber(resolved.secrets)):
        loaded = load_skill(skill)
        work = draft_tasks(resolved, loaded, folder, count=count, known=known, sinks=[_show_notices(view)])
        found = _run.measured(work, folder, view)
    write_rows(out, [*rows, *found.rows])
    data = {"file": str(out), "drafted": len(found.rows), "dropped": dict(found.dropped)}
    tell({**data, "tasks": list(found.rows)}, _drafted_lines(found, out), json=json)


def review(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSONL file with drafted tasks.")],
    keep: Annotated[
        str | None, option("--keep", "Keep these without asking: ids or numbers, 2,4-6, or all.", "TASKS")
    ] = None,
    drop: Annotated[str | None, option("--drop", "Drop these without asking, likewise.", "TASKS")] = None,
    show: Annotated[bool, option("--list", "Show the drafts and end.")] = False,
    json: Json = False,
) -> None:
    """Keep, edit or drop drafted tasks one by one, in the terminal or by --keep and --drop."""
    rows = read_rows(file)
    drafts = [row for row in rows if is_draft(row)]
    kept, gone = (_chosen(said, drafts, flag) for said, flag in ((keep, "--keep"), (drop, "--drop")))
    if both := [row["id"] for row in kept if row in gone]:
        raise UsageError(f"--keep and --drop both name {', '.join(both)}.")
    if show or json or not (keep or drop or is_asked()):
        data = {"file": str(file), "tasks": len(rows), "drafted": drafts}
        tell(data, _review_lines(drafts, file), json=json)
        return
    if keep or drop:
        rows = [as_kept(row) if row in kept else row for row in rows if row not in gone]
    else:
        rows = _one_by_one(rows, file)
    write_rows(file, rows)
    left = sum(is_draft(row) for row in rows)
    echo(f"{file}: {words.count(len(rows) - left, 'task')} to train on, {words.count(left, 'draft')} left.")


add = group(
    HELP,
    {
        "draft": flagged(
            draft, ("model.", "budget"), short=("optimizer",), epilog=EXIT_CODES, config_argument=False
        ),
        "review": simple(review),
    },
)


def _show_notices(view: View) -> Sink:
    """Says how far the drafting is: a model on this machine may take minutes."""
    return lambda event: view.say(event.text) if isinstance(event, Notice) else None


def is_asked() -> bool:
    """Whether somebody sits at the terminal."""
    return sys.stdin.isatty()


def _chosen(said: str | None, drafts: Rows, flag: str) -> Rows:
    """The drafts that a flag names, by id or by their number in the list."""
    if not said:
        return []
    if said == "all":
        return drafts
    by_name = {
        name: row for number, row in enumerate(drafts, 1) for name in (str(number), str(row.get("id")))
    }
    found: Rows = []
    for name in (part.strip() for part in said.split(",")):
        first, dash, last = name.partition("-")
        is_range = bool(dash) and first.isdigit() and last.isdigit()
        for one in map(str, range(int(first), int(last) + 1)) if is_range else (name,):
            if one not in by_name:
                raise UsageError(f"{flag}: no draft is named {one!r}. {suggest(one, by_name)}")
            found.append(by_name[one])
    return found


def _one_by_one(rows: Rows, file: Path) -> Rows:
    """Ask about every draft; each decision is written at once, so that a lost terminal loses none."""
    done: Rows = []
    for at, row in enumerate(rows):
        if is_draft(row):
            echo("\n".join(_draft_lines(at + 1, row)))
            word = typer.prompt("(k)eep, (e)dit, (d)rop, (q)uit", default="k")[:1].lower()
            if word == "q":
                return [*done, *rows[at:]]
            row = as_kept(_edited(row) if word == "e" else row)
            if word == "d":
                write_rows(file, [*done, *rows[at + 1 :]])
                continue
        done.append(row)
        write_rows(file, [*done, *rows[at + 1 :]])
    return done


def _edited(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with another request and other checks; asked again while the checks are no JSON list."""
    prompt = typer.prompt("request", default=row.get("prompt"))
    while True:
        said = typer.prompt("checks", default=json_format.dumps(row.get("checks"), ensure_ascii=False))
        try:
            checks = json_format.loads(said)
            if isinstance(checks, list):
                return {**row, "prompt": prompt, "checks": checks}
        except ValueError:
            pass
        echo('Checks are a JSON list such as [{"op": "contains", "arg": "..."}].', err=True)


def _drafted_lines(found: TaskDrafts, out: Path) -> Iterator[str]:
    yield f"{words.count(len(found.rows), 'task')} drafted: {out}"
    for why, count in found.dropped.most_common():
        yield f"  {count} dropped: {why}"
    yield f"Nothing is trained on them before you keep them: skillopt tasks review {out}"


def _review_lines(drafts: Rows, file: Path) -> Iterator[str]:
    for number, row in enumerate(drafts, 1):
        yield from _draft_lines(number, row)
    yield f"{words.count(len(drafts), 'draft')} in {file}. --keep and --drop take their numbers or ids."


def _draft_lines(number: int, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{number}. {row.get('id')}: {row.get('prompt')}"
    for check in row.get("checks") or ():
        yield f"     {check.get('op')}: {check.get('arg')}" if isinstance(check, dict) else f"     {check}"
