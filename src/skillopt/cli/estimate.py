"""`skillopt estimate`: say what a training run will cost before anything is sent, and what its tasks show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from rich.table import Table

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, option
from skillopt.cli._progress import View
from skillopt.cli.train import Effort, with_effort
from skillopt.config.load import Resolved
from skillopt.errors import UsageError
from skillopt.evaluation.significance import Noise
from skillopt.evaluation.significance import noise as noise_of
from skillopt.events import Row
from skillopt.events.state import Metric
from skillopt.gate.decision import worth_of
from skillopt.process.waiting import run_gently
from skillopt.run import Job, matrix, prepare, prepare_training
from skillopt.run.calls import Figure
from skillopt.run.estimation import Estimate, StageCost, noise_cost, speeds_of
from skillopt.run.estimation import estimate as estimated
from skillopt.run.evaluation import eval_folder, skill_named, target_only
from skillopt.runs.words import count, duration

PANEL, PLACE = "Train and measure", 3
DRAWS, GAIN = 3, 0.05
_MANY = (
    "The tasks are cross-fitted: many small runs. --effort quick takes one split, to see first whether there"
    " is anything to learn; it takes far less and proves hardly anything."
)


def estimate(
    given: Given,
    target_reply: Annotated[
        int | None,
        option("--target-reply", "Length of the target's replies, where you know it.", "TOKENS", min=1),
    ] = None,
    optimizer_reply: Annotated[
        int | None,
        option("--optimizer-reply", "Length of the optimizer's replies, where you know it.", "TOKENS", min=1),
    ] = None,
    measure: Annotated[
        bool, option("--measure", "Make three short calls to local models, and tell the time too.")
    ] = False,
    noise: Annotated[
        bool,
        option("--noise", "Pay for several draws of val: how much of a score is luck, which gain shows."),
    ] = False,
    draws: Annotated[
        int | None, option("--draws", "How often --noise tries each task (3).", "N", min=2)
    ] = None,
    gain: Annotated[
        float | None,
        option("--gain", "The gain you would like to see (0.05).", "SHARE", min=0.001, max=1.0),
    ] = None,
    skill: Annotated[
        str | None,
        option("--skill", "Skill that --noise measures; unset is the one to start from.", "PATH"),
    ] = None,
    effort: Effort = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Say what a run will take in calls, tokens and dollars, stage by stage, before anything is sent.

    Each figure is what is typical, and the most that the plan can take. With --budget it also says what that
    buys, with --noise how much of a score is luck.
    """
    if not noise and (draws, gain, skill) != (None, None, None):
        raise UsageError(
            "--draws, --gain and --skill say how --noise measures. Add --noise, which costs calls."
        )
    resolved = _run.configure(with_effort(given, effort))
    job = prepare_training(resolved, needs_key=False)
    measured = prepare(target_only(resolved), needs_key=noise)
    replies = {"target": target_reply, "optimizer": optimizer_reply}
    reply_tokens: Any = {role: tokens for role, tokens in replies.items() if tokens is not None}
    with _run.scrubbed(job.scrubber):
        speeds = run_gently(speeds_of(job)) if measure else {}
    found = estimated(job, reply_tokens=reply_tokens, speeds=speeds)
    price = noise_cost(measured, draws or DRAWS, reply_tokens)
    if not json:
        _show(found, f"{draws or DRAWS} draws of {len(measured.splits.val)} val tasks", price)
        if job.division.folds:
            open_console().say(_MANY)
    luck, lines = None, list[str]()
    if noise:
        view = _run.choose_view(measured, quiet=quiet, plain=plain)
        luck, lines = _measure(resolved, measured, skill, draws or DRAWS, gain or GAIN, view)
    if json:
        whole = {**_as_json(found), "noise_cost": _figures(price), "noise": luck}
        print_json(job.scrubber.scrub_json(whole))
    for line in () if json else lines:
        open_console().say(job.scrubber.scrub(line))


add = flagged(estimate, short=("target", "optimizer"), epilog=EXIT_CODES)


def _as_json(found: Estimate) -> dict[str, Any]:
    return {
        "simulated": found.simulated,
        "steps": found.steps,
        "stages": [{"stage": line.stage, "role": line.role, **_figures(line)} for line in found.lines],
        "total": _figures(found),
        "assumptions": list(found.assumptions),
        "prices": dict(found.prices),
        "advice": found.advice,
        "shows": found.shows,
    }


def _figures(of: Estimate | StageCost) -> dict[str, Any]:
    figures = {name: getattr(of, name) for name in ("calls", "tokens", "usd", "seconds")}
    return {name: None if one is None else one.as_json() for name, one in figures.items()}


def _show(found: Estimate, draws: str, price: StageCost) -> None:
    console = open_console()
    steps = count(found.steps, "step") + (", simulated" if found.simulated else "")
    title = f"Typical cost of {steps} (at most)"
    table = Table("stage", "role", title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("calls", "tokens", "dollars"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in found.lines:
        table.add_row(line.stage, line.role, *_cells(line))
    table.add_section()
    table.add_row("total", "", *_cells(found), style="bold")
    console.print(table)
    console.print()
    if (took := found.seconds) is not None:
        most = "" if took.at_most is None else f" (at most {duration(took.at_most)})"
        console.print(f"Time on this machine, one call after the other: {duration(took.typical)}{most}.")
    if found.advice:
        console.print(found.advice)
    calls, _, usd = _cells(price)
    luck = f"--noise measures how much of a score is luck: {draws}, {calls} calls, dollars: {usd}."
    console.print(f"{found.shows} {luck}".strip())
    prices = "; ".join(f"{role}: {source}" for role, source in found.prices.items())
    console.print(f"Assumed: {'; '.join(found.assumptions)}.", style="dim")
    console.print(f"Prices: {prices}.", style="dim")


def _cells(of: Estimate | StageCost) -> list[str]:
    usd = "unknown" if of.usd is None else _cell(of.usd, "${:,.2f}".format)
    return [_cell(of.calls, _short), _cell(of.tokens, _short), usd]


def _cell(one: Figure, form: Callable[[float], str]) -> str:
    most = "no bound" if one.at_most is None else form(one.at_most)
    return most if most == form(one.typical) else f"{form(one.typical)} ({most})"


def _short(number: float) -> str:
    for unit, size in (("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:,.{0 if number >= 100 * size else 1}f}{unit}"
    return f"{number:,.0f}"


def _measure(
    resolved: Resolved, job: Job, skill: str | None, draws: int, gain: float, view: View
) -> tuple[dict[str, Any], list[str]]:
    """Pay for the draws of val, and say what came of it to programs and people. Draws are kept in the folder
    of `eval`, and not paid again.
    """
    name = skill or "seed"
    skills = {name: job.seed if skill is None else skill_named(skill)}
    folder = eval_folder(job, resolved)
    with _run.scrubbed(job.scrubber):
        work = matrix(job, skills, ["val"], folder, repeats=draws, sinks=[view])
        (measured,) = _run.measured(work, folder, view).whole()
        scores, left_out = _scores(measured.rows, draws, job)
        if not scores:
            raise UsageError(
                f"No val task has {draws} valid draws; there is nothing to say. The rows are in {folder}."
            )
        found = noise_of(scores)
    wanted = {"gain": gain, "repeats": found.repeats_for(gain), "tasks": found.tasks_for(gain)}
    whole = {"skill": name, "folder": str(folder), **asdict(found), **wanted, "left_out": left_out}
    lines = [
        f"{'Simulated: ' * job.simulated}{name} on {found.n} val tasks, {found.draws} draws each, mean"
        f" {found.mean:.4f}",
        f"  {len(found.moved)} of {found.n} tasks did not score alike every time; the score of a pass varies"
        f" by {found.sd:.4f} from draw to draw, and by {found.sd_tasks:.4f} with which tasks they are",
        f"  an unchanged skill would beat itself in {found.lucky:.0%} of the gates with one draw",
        f"  {_showable(found)}",
        f"  {_wanted(found, gain)}",
    ]
    if left_out:
        lines.append(f"  left out, as a draw could not be measured: {', '.join(left_out)}")
    return whole, lines


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
