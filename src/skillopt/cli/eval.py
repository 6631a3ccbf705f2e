"""`skillopt eval`: measure skills without changing them."""

from __future__ import annotations

import asyncio
import hashlib
import json as json_format
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli import EXIT_CODES, _options
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json, Plain, Quiet
from skillopt.errors import ConfigError, Interrupted, Stopped

if TYPE_CHECKING:
    from skillopt.api import Evaluated, Versus
    from skillopt.build import Job
    from skillopt.cli._progress import View
    from skillopt.config import Resolved
    from skillopt.skill.document import Document

PANEL, PLACE = "Train and measure", 2
LOOK = "This is a look at the test split: choose nothing by it that you will report on it."
_KEYS = ("model.", "env.", "budget", "evaluation.sel_env_num", "evaluation.test_env_num", "train.seed")
_SKILLS = "a skill's folder or .md file, a run folder for its best skill, or 'none' for no skill"
_NAMES = "train, val (valid_seen), test (valid_unseen) or all"


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(app, "eval", evaluate, panel=PANEL, full=full, epilog=EXIT_CODES, wanted=lambda key: key.startswith(_KEYS))


def evaluate(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    skill: Annotated[
        list[str] | None,
        typer.Option("--skill", metavar="PATH", help=f"What to measure: {_SKILLS}; repeatable.", show_default=False),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PATH", help=f"Compare each skill in pairs with this one: {_SKILLS}.", show_default=False),
    ] = None,
    split: Annotated[str, typer.Option("--split", metavar="SPLIT", help=f"What to measure on: {_NAMES}.")] = "all",
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Draws per task; their mean is the task's score.")] = 1,
    cfg_options: CfgOptions = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure one or more skills, alone or against another. What was measured before in the same folder is not paid again."""
    from skillopt import api
    from skillopt.build import prepare
    from skillopt.cli import _report, _run

    skills = load_skills(skill or [], against)
    # A config made for training may leave the test out; here --split decides.
    resolved = _run.configure(_options.config_name(config_argument, config), flags, [*(cfg_options or []), "evaluation.eval_test=true"])
    job = prepare(target_only(resolved))
    splits = api.eval_splits(split, job)
    folder = folder_of(job, resolved)
    view = _run.choose_view(job, quiet=quiet, plain=plain)
    if "test" in splits and json:
        view.say(LOOK)
    with _run.scrubbed(job.scrubber):
        work = api.evaluate(job, skills, splits, folder, against=against, repeats=repeats, sinks=[view])
        results = _run.watched(_session(work, folder, view), view)
    compared = api.comparisons(results, against, graded=job.benchmark.graded) if against is not None else []
    data = [_as_json(one) for one in results]
    if json:
        note = {"note": LOOK} if "test" in splits else {}
        whole = {"folder": str(folder), "simulated": job.simulated, **note, "evaluations": data, "comparisons": list(map(asdict, compared))}
        _report.print_json(job.scrubber.scrub_json(whole))
    else:
        _show(data, compared, folder, simulated=job.simulated)


def load_skills(names: Sequence[str], against: str | None = None) -> dict[str, Document]:
    """The skills by the name they were given, the one to compare with among them; `none` is an empty one."""
    if not names:
        raise ConfigError("No skill is named: --skill PATH takes a folder with SKILL.md or a .md file, --skill none measures without one.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--skill names {', '.join(twice)} more than once.")
    if against is not None and set(names) == {against}:
        raise ConfigError(f"--against {against} is the only skill that --skill names; a comparison needs two.")
    wanted = dict.fromkeys([*names, *([] if against is None else [against])])
    return {name: _load(name) for name in wanted}


def _load(name: str) -> Document:
    from skillopt.cli._folder import is_run
    from skillopt.skill.document import Document
    from skillopt.skill.folder import load_skill

    if name == "none":
        return Document("")
    if not is_run(Path(name)):
        return load_skill(name).document
    best = Path(name) / "best_skill.md"
    if not best.is_file():
        raise ConfigError(f"{name} is a run without a best skill: there is no {best.name} in it. Train first, or name a skill.")
    return load_skill(best).document


def target_only(resolved: Resolved) -> Resolved:
    """The configuration with the target in the optimizer's place: nothing here calls an optimizer, so none needs a key or a price."""
    from skillopt.config import parse_model_string

    model = resolved.config.model
    bare = str(replace(parse_model_string(model.target.name, "target"), harness="chat"))
    stand_in = model.target.model_copy(update={"name": bare})
    config = resolved.config.model_copy(update={"model": model.model_copy(update={"optimizer": stand_in})})
    return replace(resolved, config=config)


def folder_of(job: Job, resolved: Resolved) -> Path:
    """Where results go: as told on the command line, else one folder for this target on these tasks."""
    out = job.config.env.out_root
    if out is not None and resolved.provenance["env.out_root"].layer in ("flag", "cfg-options"):
        return out  # a config file's out_root is the training run's folder
    identity = job.identity()
    parts = [identity["model"]["target"], identity["env"], identity["tasks"]]
    digest = hashlib.sha256(json_format.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]
    return Path.cwd() / "outputs" / f"eval_{job.benchmark.name}_{digest}"


async def _session(evaluation: Coroutine[Any, Any, list[Evaluated]], folder: Path, view: View) -> list[Evaluated]:
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


def _as_json(one: Evaluated) -> dict[str, Any]:
    names = ("skill", "split", "repeats", "hard", "soft", "n", "invalid")
    return {name: getattr(one, name) for name in names}


def _show(rows: Sequence[Mapping[str, Any]], compared: Sequence[Versus], folder: Path, *, simulated: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from skillopt.cli import _words as words

    console = Console(highlight=False)
    table = Table(show_edge=False, pad_edge=False, title="Simulated" if simulated else None, title_justify="left")
    table.add_column("skill", overflow="fold")
    table.add_column("split")
    for name in ("hard", "soft", "n", "invalid"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        figures = (words.score(row["hard"]), words.score(row["soft"]), str(row["n"]), str(row["invalid"]))
        table.add_row(Text(row["skill"]), row["split"], *figures)
    console.print(table)
    for one in compared:
        console.print(Text("\n".join(_said(one))), soft_wrap=True)
    if any(row["split"] == "test" for row in rows):
        console.print(Text(LOOK, style="yellow"), soft_wrap=True)
    console.print(Text(f"Rows: {folder / 'results.jsonl'}"), soft_wrap=True)


def _said(one: Versus) -> Iterator[str]:
    """A comparison in a few lines, no more sure of itself than it is."""
    from skillopt.cli import _words as words

    yield ""
    draws = f", {one.repeats} draws each" if one.repeats > 1 else ""
    head = f"{one.skill} against {one.against} on {one.split} ({one.metric}"
    found = one.comparison
    if found is None:
        yield f"{head}{draws}): {words.NOT_MEASURED}. {one.why}."
        return
    low, high = found.interval
    yield f"{head}, {words.count(found.n, 'task')}{draws}): {found.before:.3f} to {found.after:.3f}, {found.delta:+.3f}"
    chance = "" if found.p < 0.05 else "; this difference can be chance" if found.delta else ""
    yield f"  95 % interval {low:+.3f} to {high:+.3f}, p = {found.p:.2g} ({found.test}){chance}"
    for word, tasks in (("fixed", found.fixed), ("broken", found.broken), ("left out, not measurable", one.left_out)):
        if tasks or word != "left out, not measurable":
            yield f"  {len(tasks)} {word}{': ' if tasks else ''}{', '.join(tasks)}"
