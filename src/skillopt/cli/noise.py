"""`skillopt noise`: how much of a score is luck, before anybody believes a gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import tell
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, option
from skillopt.errors import UsageError
from skillopt.evaluation.significance import Noise
from skillopt.evaluation.significance import noise as noise_of
from skillopt.events import Row
from skillopt.events.state import Metric
from skillopt.gate.decision import worth_of
from skillopt.run import Job, matrix, prepare
from skillopt.run.evaluation import eval_folder, skill_named, target_only

PANEL, PLACE = "Train and measure", 4
_KEYS = ("model.", "env.", "budget", "evaluation.", "train.seed")


def noise(
    given: Given,
    skill: Annotated[
        str | None,
        option("--skill", "Skill to measure again and again; unset is the one to start from.", "PATH"),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", min=2, help="How often each task is tried.")
    ] = 3,
    gain: Annotated[
        float,
        typer.Option("--gain", metavar="SHARE", min=0.001, max=1.0, help="The gain you would like to see."),
    ] = 0.05,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure one skill several times on val: how often it beats itself, which gain the gate can see.

    Nothing is trained. Draws are kept in the folder of `eval`, and not paid again.
    """
    resolved = _run.configure(given)
    job = prepare(target_only(resolved))
    name = skill or "seed"
    skills = {name: job.seed if skill is None else skill_named(skill)}
    folder = eval_folder(job, resolved)
    view = _run.choose_view(job, quiet=quiet, plain=plain)
    with _run.scrubbed(job.scrubber):
        work = matrix(job, skills, ["val"], folder, repeats=draws, sinks=[view])
        (measured,) = _run.measured(work, folder, view).whole()
        scores, left_out = _scores(measured.rows, draws, job)
        if not scores:
            raise UsageError(
                f"No val task has {draws} valid draws; there is nothing to say. The rows are in {folder}."
            )
        found = noise_of(scores)
        about = {
            "gain": gain,
            "repeats": found.repeats_for(gain),
            "tasks": found.tasks_for(gain),
            "left_out": left_out,
        }
        whole = {"skill": name, "folder": str(folder), **asdict(found), **about, "simulated": job.simulated}
        lines = _lines(name, found, gain, left_out, simulated=job.simulated)
        tell(job.scrubber.scrub_json(whole), lines, json=json)


add = flagged(noise, _KEYS, short=("target",), epilog=EXIT_CODES)


def _scores(rows: Sequence[Row], draws: int, job: Job) -> tuple[dict[str, list[float]], list[str]]:
    """What the gate would read of each draw, by task; and the tasks of which a draw is missing."""
    evaluation = job.config.evaluation
    metric: Metric = evaluation.gate_metric or ("soft" if job.benchmark.graded else "hard")
    found: dict[str, list[float]] = {}
    for row in rows:
        values = found.setdefault(row.task, [])
        if (worth := worth_of(row, metric, evaluation.gate_mixed_weight)) is not None:
            values.append(float(worth))
    whole = {task: values for task, values in found.items() if len(values) == draws}
    return whole, sorted(set(found) - set(whole))


def _lines(
    skill: str, found: Noise, gain: float, left_out: Sequence[str], *, simulated: bool
) -> Iterator[str]:
    head = "Simulated: " if simulated else ""
    yield f"{head}{skill} on {found.n} val tasks, {found.draws} draws each, mean {found.mean:.4f}"
    yield (
        f"  {len(found.moved)} of {found.n} tasks did not score alike every time; the score of a pass varies"
        f" by {found.sd:.4f} from draw to draw, and by {found.sd_tasks:.4f} with which tasks they are"
    )
    yield f"  an unchanged skill would beat itself in {found.lucky:.0%} of the gates with one draw"
    yield f"  {_showable(found)}"
    yield f"  {_wanted(found, gain)}"
    if left_out:
        yield f"  left out, as a draw could not be measured: {', '.join(left_out)}"


def _showable(found: Noise) -> str:
    """Which gain these tasks show, drawn once."""
    steps, room = f"the score moves in steps of {found.step:.4f}", 1 - found.mean
    if found.seen is None:
        return f"{steps} and can rise by {room:.4f}: too little room for a gain that these tasks show"
    told = f"{steps}; a true gain of {found.seen:.4f} shows as one 4 times in 5"
    if found.sure is None:
        return f"{told}, and no gain stands out from luck (1 in 20): there are too few tasks"
    return f"{told}, one of {found.sure:.4f} stands out from luck (1 in 20), if nothing that works breaks"


def _wanted(found: Noise, gain: float) -> str:
    """What it takes to see the gain that somebody would like to see."""
    if gain > 1 - found.mean + 1e-9:
        return f"a gain of {gain:g} cannot occur: the score is {found.mean:.4f} already"
    repeats, tasks = found.repeats_for(gain), f"{found.tasks_for(gain):,} val tasks like these"
    if repeats is None:
        few = f"to be sure of a gain of {gain:g} {found.n} tasks are too few, however often drawn"
        return f"{few}; it takes {tasks}"
    more = "" if repeats == 1 else f", or {tasks}"
    return f"to be sure of a gain of {gain:g}: evaluation.repeats={repeats}{more}"
