"""`skillopt eval`: measure skills without changing them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli import EXIT_CODES, _options
from skillopt.cli._console import echo
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json, Plain, Quiet
from skillopt.errors import ConfigError, Interrupted, Stopped, UsageError

if TYPE_CHECKING:
    from skillopt.api import Evaluated, Matrix
    from skillopt.build import Job
    from skillopt.cli._progress import View
    from skillopt.config import Resolved
    from skillopt.skill.folder import Skill

PANEL, PLACE = "Train and measure", 2
LOOK = "This is a look at the test split: choose nothing by it that you will report on it."
UNCOUNTED = "If these are the test tasks of a training run, --run RUN counts the look there."
_KEYS = ("model.", "env.", "budget", "evaluation.sel_env_num", "evaluation.test_env_num", "train.seed")
_SKILLS = "a skill's folder or .md file, a run folder for its best skill, or 'none' for no skill"
_NAMES = "train, val (valid_seen), test (valid_unseen) or all"
_OWN_KEYS = ("base_url", "api_key", "price")
"""What belongs to one target: sent to another one, a key would leave its home."""


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(
        app,
        "eval",
        evaluate,
        panel=PANEL,
        full=full,
        epilog=EXIT_CODES,
        wanted=lambda key: key.startswith(_KEYS),
    )


def evaluate(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    skill: Annotated[
        list[str] | None,
        typer.Option(
            "--skill", metavar="PATH", help=f"What to measure: {_SKILLS}; repeatable.", show_default=False
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="MODEL",
            help="What to measure with, as --target_model; repeatable.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="PATH",
            help=f"Compare each skill in pairs with this one: {_SKILLS}.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", metavar="SPLIT", help=f"What to measure on: {_NAMES}.")
    ] = "all",
    repeats: Annotated[
        int,
        typer.Option("--repeats", metavar="N", min=1, help="Draws per task; their mean is the task's score."),
    ] = 1,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A training run whose test split this may look at; repeatable.",
            show_default=False,
        ),
    ] = None,
    cfg_options: CfgOptions = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure skills with one target or several, alone or in pairs. What was measured before in the same
    folder is not paid again.
    """
    from skillopt import api
    from skillopt.build import prepare
    from skillopt.build.measuring import eval_folder, target_only
    from skillopt.cli import _matrix, _report, _run

    skills = load_skills(skill or [], against)
    runs = runs_of([*skills], run or [])
    # A config made for training may leave the test out; here --split decides.
    options = [*(cfg_options or []), "evaluation.eval_test=true"]
    resolved = resolve(_options.config_name(config_argument, config), flags, options, target or [])
    targets = [api.Target.of(one.config) for one in resolved]
    job = _with_targets(prepare(target_only(resolved[0])), [one.name for one in targets])
    splits = api.eval_splits(split, job)
    folder = eval_folder(job, resolved[0])
    view = _run.choose_view(job, quiet=quiet, plain=plain, target=", ".join(one.name for one in targets))
    if "test" in splits and json:
        view.say(LOOK)
    with _run.scrubbed(job.scrubber):
        work = api.matrix(
            job,
            skills,
            splits,
            folder,
            targets=targets,
            against=against,
            repeats=repeats,
            runs=runs,
            sinks=[view],
        )
        found = _run.watched(session(work, folder, view), view)
        if not found.evaluations:
            found.whole()
        compared = (
            api.comparisons(found.evaluations, against, graded=job.benchmark.graded)
            if against is not None
            else []
        )
        remarks = _remarks(found, "test" in splits, named=bool(runs))
        if json:
            whole = {
                "folder": str(folder),
                "simulated": job.simulated,
                **({"note": remarks[0]} if "test" in splits else {}),
                "evaluations": [_as_json(one) for one in found.evaluations],
                "comparisons": list(map(asdict, compared)),
                "missing": list(map(asdict, found.missing)),
                "looks": list(map(asdict, found.noted)),
            }
            for remark in remarks[1:]:
                echo(job.scrubber.scrub(remark), err=True)
            _report.print_json(job.scrubber.scrub_json(whole))
        else:
            _matrix.show(found, compared, remarks, folder, simulated=job.simulated)
        found.whole()


def load_skills(names: Sequence[str], against: str | None = None) -> dict[str, Skill]:
    """The skills by the name they were given, the one to compare with among them; `none` is an empty one."""
    if not names:
        raise ConfigError(
            "No skill is named: --skill PATH takes a folder with SKILL.md or a .md file, --skill none"
            " measures without one."
        )
    from skillopt.build.measuring import skill_named

    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--skill names {', '.join(twice)} more than once.")
    if against is not None and set(names) == {against}:
        raise ConfigError(
            f"--against {against} is the only skill that --skill names; a comparison needs two."
        )
    wanted = dict.fromkeys([*names, *([] if against is None else [against])])
    return {name: skill_named(name) for name in wanted}


def runs_of(skills: Sequence[str], named: Sequence[Path]) -> list[Path]:
    """The training runs that this may look into: those that are named, and those in whose folder a skill
    lies.
    """
    from skillopt.runs.reader import is_run, read_run

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


def resolve(
    config: str | None, flags: Mapping[str, str], options: Sequence[str], targets: Sequence[str]
) -> list[Resolved]:
    """The configuration once for every target; without --target it names the only one. What a reader should
    know goes to stderr.
    """
    from skillopt.config import load

    if targets and "target_model" in flags:
        raise ConfigError(
            "--target and --target_model both name a target; keep --target, which may be given several times."
        )
    wanted = [{**flags, "target_model": target} for target in targets] or [dict(flags)]
    found = [
        load(config, flags=one, options=list(options), environ=os.environ, cwd=Path.cwd()) for one in wanted
    ]
    for warning in dict.fromkeys(warning for one in found for warning in one.warnings):
        echo(f"warning: {warning}", err=True)
    if len(found) > 1:
        _check_shared(found)
    secrets = tuple(dict.fromkeys(secret for one in found for secret in one.secrets))
    return [replace(one, secrets=secrets) for one in found]


def _check_shared(found: Sequence[Resolved]) -> None:
    """Nothing that is one target's own may be written for all of them."""
    from skillopt.config.source import CHOSEN

    for one in found:
        in_name = one.provenance["model.target.name"]  # an endpoint inside --target is that target's own
        sources = {key: one.provenance.get(f"model.target.{key}") for key in _OWN_KEYS}
        for key, source in sources.items():
            if source is not None and source.layer in CHOSEN and source != in_name:
                raise ConfigError(
                    f"model.target.{key} ({source}) belongs to one target, and --target names {len(found)}."
                    " Write endpoints into the targets (compatible:NAME@URL) and keep keys in the"
                    " environment, or measure this target by itself with the same --out_root: a folder"
                    " adds up."
                )


def _with_targets(job: Job, names: Sequence[str]) -> Job:
    """`config.json` names all targets, not the first one alone."""
    return job if len(names) == 1 else replace(job, settings={**job.settings, "targets": list(names)})


async def session(evaluation: Coroutine[Any, Any, Matrix], folder: Path, view: View) -> Matrix:
    """One evaluation under the view; a signal stops it between decisions."""
    from skillopt.cli import _run

    work = asyncio.ensure_future(evaluation)
    reasons: list[Stopped] = []

    def stop(reason: Stopped) -> None:
        reasons.append(reason)
        work.cancel()

    view.start([])
    with _run.on_signal(stop, view, folder):
        try:
            return await work
        except asyncio.CancelledError:
            raise (reasons[0] if reasons else Interrupted("Interrupted.")) from None


def _remarks(found: Matrix, is_look: bool, *, named: bool) -> list[str]:
    """What a reader must know of a look at test: that it is one, and where it is counted."""
    said = [LOOK] if is_look else []
    said += [
        one.why or f"Counted in {one.run}: this is look {one.look} at its test split." for one in found.noted
    ]
    return [*said, UNCOUNTED] if is_look and not named else said


def _as_json(one: Evaluated) -> dict[str, Any]:
    names = ("target", "skill", "digest", "split", "repeats", "hard", "soft", "n", "invalid")
    return {name: getattr(one, name) for name in names}
