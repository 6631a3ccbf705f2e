"""`skillopt eval`: measure skills without changing them, alone or in pairs, with one target or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import coloured, echo, open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, SameModel, option
from skillopt.config.load import Resolved, check_shared
from skillopt.errors import ConfigError, UsageError
from skillopt.run import (
    Job,
    Matrix,
    Target,
    Versus,
    eval_splits,
    matrix,
    prepare,
)
from skillopt.run.addresses import asked_by, at_kept, kept_addresses
from skillopt.run.evaluation import (
    BEST,
    check_unseen,
    eval_folder,
    skill_named,
    target_only,
)
from skillopt.run.job import distinct_targets
from skillopt.run.results import missing_cell
from skillopt.runs import words
from skillopt.runs.reader import is_run, read_run
from skillopt.skill.folder import Skill
from skillopt.tasks.splits import canonical_split
from skillopt.tasks.task import SPLITS, Split

PANEL, PLACE = "Train and measure", 2
LOOK = "This is a look at the test split: choose nothing by it that you will report on it."
UNCOUNTED = "If these are the test tasks of a training run, --run RUN counts the look there."
_KEYS = (
    *("model.", "env.", "budget", "train.seed"),
    *("evaluation.sel_env_num", "evaluation.test_env_num"),
)
_SKILLS = "a skill's folder or .md file, a run folder for its best skill, or 'none' for no skill"
_NAMES = "train, val (valid_seen), test (valid_unseen) or all"


def evaluate(
    given: Given,
    skill: Annotated[
        list[str] | None,
        option(
            "--skill",
            f"What to measure: {_SKILLS}; repeatable. Unset: a run's best, else skill_init.",
            "PATH",
        ),
    ] = None,
    target: Annotated[
        list[str] | None, option("--target", "What to measure with, as --target_model; repeatable.", "MODEL")
    ] = None,
    against: Annotated[
        str | None, option("--against", f"Compare each skill in pairs with this one: {_SKILLS}.", "PATH")
    ] = None,
    split: Annotated[
        str | None,
        option(
            "--split", f"What to measure on: {_NAMES}. Unset: all; of a run val, as test is sealed.", "SPLIT"
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        option(
            "--repeats",
            "Draws per task; their mean is the task's score. Unset: 1; of a run as many as its gate took.",
            "N",
            min=1,
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        option("--run", "A training run whose test split this may look at; repeatable.", "RUN"),
    ] = None,
    same_model: SameModel = False,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure skills with one target or several, alone or in pairs. Nothing is paid twice in one folder.

    A run folder in the place of a config is its own: 'eval RUN' measures its best skill on its val tasks,
    'eval RUN --against seed' compares the two, and what the run measured is not paid again.
    """
    resolved = resolve(given, target or [])
    seed, own = resolved[0].config.env.skill_init, given.run
    unnamed = [BEST] if own is not None else [] if seed is None else [_near(seed)]
    skills = load_skills(skill or unnamed, against, own)
    runs = runs_of([*skills], [*(run or []), *([] if own is None else [own])])
    targets = [Target.of(one.config) for one in resolved]
    job = replace(prepare(target_only(resolved[0])), reuses=tuple(runs))
    folder, asked = eval_folder(job, resolved[0], targets), asked_by(job, targets)
    kept = kept_addresses(asked, folder, job.eval_identity(), runs=runs, same_model=same_model)
    job, targets = at_kept(job, kept), distinct_targets([at_kept(one, kept) for one in targets])
    folder = eval_folder(job, resolved[0], targets)
    names = [one.name for one in targets]
    if len(names) > 1:  # `settings.json` names all of them, not the first one alone
        job = replace(job, settings={**job.settings, "targets": names})
    named = split or ("all" if own is None else "val")
    if named != "all" and not job.splits.of(canonical_split(named)):
        check_unseen(skills, runs, job, SPLITS)  # why there is none says more than that there is none
    splits = eval_splits(named, job)
    check_unseen(skills, runs, job, splits)
    draws = repeats or (1 if own is None else job.repeats)
    view = _run.choose_view(job, quiet=quiet, plain=plain, target=", ".join(names))
    if "test" in splits and json:
        view.say(LOOK)
    with _run.scrubbed(job.scrubber):
        sizes: Any = {"targets": targets, "against": against, "repeats": draws, "runs": runs}
        found = _run.measured(matrix(job, skills, splits, folder, **sizes, sinks=[view]), folder, view)
        if not found.evaluations:
            found.whole()
        _print(job, found, folder, is_look="test" in splits, counted=bool(runs), json=json)
        found.whole()


add = flagged(evaluate, _KEYS, epilog=EXIT_CODES)


def _near(path: Path) -> str:
    """A path as a person would write it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def load_skills(
    names: Sequence[str], against: str | None = None, run: Path | None = None
) -> dict[str, Skill]:
    """The skills by the name they were given, the one to compare with among them; `none` is an empty one, and
    `seed` and `best` are those of the run.
    """
    if not names:
        raise ConfigError(
            "No skill is named: --skill PATH takes a folder with SKILL.md or a .md file, --skill none"
            " measures without one."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--skill names {', '.join(twice)} more than once.")
    if against is not None and set(names) == {against}:
        raise ConfigError(
            f"--against {against} is the only skill that --skill names; a comparison needs two."
        )
    wanted = dict.fromkeys([*names, *([] if against is None else [against])])
    return {name: skill_named(name, run) for name in wanted}


def runs_of(skills: Sequence[str], named: Sequence[Path]) -> list[Path]:
    """The training runs that this may look into: those that are named, and those that hold a skill."""
    for run in named:
        if read_run(run).fold.started is None:
            raise UsageError(
                f"--run {run} is no training run that has begun; it has no test split to look at."
            )
    found = {run.resolve(): run for run in named}
    for path in (Path(name) for name in skills if name != "none"):
        home = next((folder for folder in (path, *path.absolute().parents) if is_run(folder)), None)
        if home is not None:
            found.setdefault(home.resolve(), home)
    return list(found.values())


def resolve(given: Given, targets: Sequence[str]) -> list[Resolved]:
    """The configuration once for every target of --target, or the only one. Warnings go to stderr."""
    if targets and "target_model" in given.flags:
        raise ConfigError(
            "--target and --target_model both name a target; keep --target, which may be given several times."
        )
    # A config made for training may leave the test out; here --split decides.
    given = replace(given, options=[*given.options, "evaluation.eval_test=true"])
    given = given.with_flag("targets", "") if targets else given
    wanted = [given.with_flag("target_model", target) for target in targets] or [given]
    found = [one.load() for one in wanted]
    if found[0].targets:
        found = [replace(found[0], config=config, targets=()) for config in found[0].targets]
    for warning in dict.fromkeys(warning for one in found for warning in one.warnings):
        echo(f"warning: {warning}", err=True)
    check_shared(found)
    found = [_run.agreed(one, force=given.force) for one in found]
    secrets = tuple(dict.fromkeys(secret for one in found for secret in one.secrets))
    return [replace(one, secrets=secrets) for one in found]


def _print(job: Job, found: Matrix, folder: Path, *, is_look: bool, counted: bool, json: bool) -> None:
    counts = [
        one.why or f"Counted in {one.run}: this is look {one.look} at its test split." for one in found.noted
    ]
    remarks = [*counts, *([UNCOUNTED] if is_look and not counted else [])]
    if not json:
        shown = [LOOK, *remarks] if is_look else remarks
        _show(found, shown, folder, simulated=job.simulated)
        return
    for remark in remarks:
        echo(job.scrubber.scrub(remark), err=True)
    names = ("target", "skill", "digest", "split", "repeats", "hard", "soft", "n", "invalid")
    whole = {
        "folder": str(folder),
        "simulated": job.simulated,
        **({"note": LOOK} if is_look else {}),
        "evaluations": [{name: getattr(one, name) for name in names} for one in found.evaluations],
        "comparisons": list(map(asdict, found.compared)),
        "missing": list(map(missing_cell, found.missing)),
        "looks": list(map(asdict, found.noted)),
    }
    print_json(job.scrubber.scrub_json(whole))


def _show(found: Matrix, remarks: Sequence[str], folder: Path, *, simulated: bool) -> None:
    """Print what was measured, what is missing, and where the rows are."""
    console = open_console()
    several = len({target for target, _, _ in _cells(found)}) > 1
    console.print(_table(found, simulated=simulated) if several else _list(found, simulated=simulated))
    for one in found.compared:
        for line in _comparison_lines(one, several=several):
            console.say(line)
    for remark in remarks:
        console.say(remark, "yellow")
    console.say(f"Rows: {folder / 'results.jsonl'}")


def _table(found: Matrix, *, simulated: bool) -> Table:
    """A row a skill and split, a column a target; a cell is the mean hard score, the soft one in brackets,
    and what it rests on.
    """
    cells = {
        (one.target, one.skill, one.split): (
            f"{words.score(one.hard)} ({words.score(one.soft)})\nn {one.n}, {one.invalid} invalid"
        )
        for one in found.evaluations
    }
    asked = _cells(found)
    targets = list(dict.fromkeys(target for target, _, _ in asked))
    drawn = _empty(f"{'Simulated: ' if simulated else ''}hard (soft), n tasks")
    for target in targets:
        drawn.add_column(Text(target), overflow="fold")
    for skill, split in dict.fromkeys((skill, split) for _, skill, split in asked):
        figures = [cells.get((target, skill, split), words.NOT_MEASURED) for target in targets]
        drawn.add_row(Text(skill), split, *figures)
    return drawn


def _cells(found: Matrix) -> list[tuple[str, str, Split]]:
    """Every cell that was asked for, measured or not."""
    return [(one.target, one.skill, one.split) for one in (*found.evaluations, *found.missing)]


def _list(found: Matrix, *, simulated: bool) -> Table:
    drawn = _empty("Simulated" if simulated else None)
    for name in ("hard", "soft", "n", "invalid"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for one in found.evaluations:
        figures = (words.score(one.hard), words.score(one.soft), str(one.n), str(one.invalid))
        drawn.add_row(Text(one.skill), one.split, *figures)
    for lost in found.missing:
        drawn.add_row(Text(lost.skill), lost.split, words.NOT_MEASURED)
    return drawn


def _empty(title: str | None) -> Table:
    drawn = Table(show_edge=False, pad_edge=False, title=title, title_justify="left")
    drawn.add_column("skill", overflow="fold")
    drawn.add_column("split")
    return drawn


def _comparison_lines(one: Versus, *, several: bool) -> Iterator[str | Text]:
    """A comparison in a few lines, no more sure of itself than it is."""
    yield ""
    draws = f", {one.repeats} draws each" if one.repeats > 1 else ""
    subject = f"{one.skill} against {one.against}" + (f" with {one.target}" if several else "")
    head = f"{subject} on {one.split} ({one.metric}"
    found = one.comparison
    if found is None:
        yield f"{head}{draws}): {words.NOT_MEASURED}. {one.why}."
        return
    scores = f"{found.before:.3f} to {found.after:.3f}, {found.delta:+.3f}"
    yield f"{head}, {words.count(found.n, 'task')}{draws}): {scores}"
    yield Text(f"  {words.proof(found)}", coloured(found.significance))
    if found.significance == "not proven yet":
        yield "  Training chose the skill by these tasks; a test that it never saw can prove it."
    for word, tasks in (("fixed", found.fixed), ("broken", found.broken)):
        yield f"  {len(tasks)} {word}{': ' if tasks else ''}{', '.join(tasks)}"
    if one.left_out:
        yield f"  {len(one.left_out)} left out, not measurable: {', '.join(one.left_out)}"
