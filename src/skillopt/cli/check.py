"""`skillopt check`: measure a changed skill against its version in git: better, worse, or cannot tell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from skillopt import api
from skillopt.build import Job, prepare
from skillopt.build.evaluation import eval_folder, skill_digest, skill_named, target_only
from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._check_files import Check, as_comment, as_junit
from skillopt.cli._console import open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, argument, option
from skillopt.cli._progress import View
from skillopt.errors import BudgetSpent, ConfigError
from skillopt.evaluation.compare import compare_rows
from skillopt.events import RowFact
from skillopt.files import temporary_folder, write_text
from skillopt.runs import words
from skillopt.skill.folder import Skill, load_skill
from skillopt.skill.in_git import skill_at
from skillopt.tasks.splits import listed

PANEL, PLACE = "Train and measure", 3
CODES = {"better": 0, "unchanged": 0, "worse": 6, "cannot tell": 7}
_KEYS = ("model.", "env.", "budget", "train.seed", "evaluation.batch")
_EPILOG = f"Exit codes of check: 0 better or unchanged · 6 worse · 7 cannot tell. {EXIT_CODES}"


def check(
    given: Given,
    skill: Annotated[
        str | None, argument("SKILL", "The changed skill: a folder or .md file; unset: the config's.")
    ] = None,
    tasks: Annotated[
        str | None,
        option("--tasks", "File with the tasks to measure on, as --data_path; all are measured.", "FILE"),
    ] = None,
    against: Annotated[
        str, typer.Option("--against", metavar="REF", help="Commit, branch or tag to compare with.")
    ] = "HEAD",
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Draws per task; their mean counts.")
    ] = 1,
    comment: Annotated[
        Path | None, option("--comment", "Write the outcome as Markdown, for a pull request.", "FILE")
    ] = None,
    junit: Annotated[Path | None, option("--junit", "Write the outcome as JUnit XML.", "FILE")] = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure a changed skill against its version in git, on the same tasks, and say whether it got better.

    A skill that is not in git at that commit is compared with no skill. Answers are kept in the folder of
    `eval`, and not paid again.
    """
    if tasks is not None:
        given = given.with_flag("data_path", tasks)
        given = given if given.config or "env" in given.flags else given.with_flag("env", "own")
    resolved = _run.configure(given if skill is None else given.with_flag("skill_init", skill))
    path = resolved.config.env.skill_init
    if path is None:
        raise ConfigError(
            "No skill is named: skillopt check SKILL takes a folder with SKILL.md or a .md file."
        )
    job = prepare(target_only(resolved))
    with temporary_folder("skillopt-check-") as folder, _run.scrubbed(job.scrubber):
        changed = load_skill(path)
        earlier = skill_at(changed, against, folder / "earlier")
        asked = Check(
            skill=os.path.relpath(path),
            ref=against,
            earlier=earlier,
            repeats=repeats,
            simulated=job.simulated,
        )
        view = _run.choose_view(job, quiet=quiet, plain=plain)
        found = _measured(job, changed, asked, eval_folder(job, resolved), view)
        scrub = job.scrubber.scrub
        for file, text in ((comment, as_comment(found)), (junit, as_junit(found))):
            if file is not None:
                write_text(file, scrub(text))
        if json:
            print_json(job.scrubber.scrub_json(found.as_json()))
        else:
            console = open_console()
            for line in _lines(found):
                console.say(scrub(line))
    raise typer.Exit(CODES[found.verdict])


add = flagged(check, _KEYS, short=("target",), epilog=_EPILOG, config_argument=False)


def _measured(job: Job, skill: Skill, check: Check, folder: Path, view: View) -> Check:
    """Both versions on all tasks, with every target; equal ones are not measured."""
    before = check.earlier.skill or skill_named("none")
    targets = list(job.targets) or [api.Target.of(job.config)]
    if all(skill_digest(one, skill) == skill_digest(one, before) for one in targets):
        return check
    sizes: Any = {"targets": targets, "against": check.ref, "repeats": check.repeats, "sinks": [view]}
    versions, splits = {check.ref: before, "changed": skill}, api.eval_splits("all", job)
    measured = _run.measured(api.matrix(job, versions, splits, folder, in_pairs=True, **sizes), folder, view)
    rows: dict[str, list[RowFact]] = {name: [] for name in versions}
    for one in (*measured.evaluations, *measured.partial):
        rows[one.skill] += one.rows
    old, new = rows.values()
    tasks = sum(len(job.splits.of(split)) for split in splits)
    if measured.stopped is not None:  # the verdict is about the tasks that were measured in full
        draws = Counter(row.task for row in (*old, *new))
        paired = {task for task, count in draws.items() if count == 2 * check.repeats * len(targets)}
        if not paired or not isinstance(measured.stopped, BudgetSpent):
            raise measured.stopped
        old, new = ([row for row in arm if row.task in paired] for arm in (old, new))
        check = replace(check, cut_short=f"{len(paired)} of {tasks} tasks")
    graded = job.benchmark.graded
    if graded is None:
        graded = any(row.soft is not None and 0 < row.soft < 1 for row in (*old, *new))
    metric = "soft" if graded else "hard"
    found = compare_rows(old, new, attrgetter(metric), split="given")
    return replace(check, found=found, metric=metric, folder=folder)


def _lines(check: Check) -> Iterator[str]:
    if check.simulated:
        yield "Simulated."
    yield f"{check.verdict.capitalize()}: {check.why}"
    compared = check.comparison
    if compared is None:
        return
    yield f"  {words.interval(compared)}, p = {compared.p:.2g} ({compared.test})"
    for word, tasks in (("fixed", compared.fixed), ("broken", compared.broken)):
        yield f"  {len(tasks)} {word}{': ' if tasks else ''}{listed(tasks)}"
    if check.left_out:
        yield f"  {len(check.left_out)} left out, not measurable: {listed(check.left_out)}"
    if check.told_short:
        yield f"  {check.told_short}"
    if check.verdict == "cannot tell":
        yield "  The difference can be chance. More tasks, or --repeats, make the interval narrower."
    assert check.folder is not None, "it was measured"
    yield f"Rows: {check.folder / 'results.jsonl'}"
