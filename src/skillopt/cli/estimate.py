"""`skillopt estimate`: say what a training run will probably cost, before anything is sent."""

from __future__ import annotations

from typing import Annotated, Any

from rich.table import Table

from skillopt.cli import _run
from skillopt.cli._console import open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, option
from skillopt.cli.train import Effort, with_effort
from skillopt.process.waiting import run_gently
from skillopt.run import prepare_training
from skillopt.run.estimation import Estimate, Range, StageCost, speeds_of
from skillopt.run.estimation import estimate as estimated
from skillopt.runs.words import count, duration

PANEL, PLACE = "Train and measure", 3
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
    effort: Effort = None,
    json: Json = False,
) -> None:
    """Say what a run will take in calls, tokens and dollars, stage by stage, before anything is sent.

    Each figure is what is likely, between luck and bad luck. With --budget it also says what that buys.
    """
    job = prepare_training(_run.configure(with_effort(given, effort)), needs_key=False)
    replies = {"target": target_reply, "optimizer": optimizer_reply}
    reply_tokens: Any = {role: tokens for role, tokens in replies.items() if tokens is not None}
    with _run.scrubbed(job.scrubber):
        speeds = run_gently(speeds_of(job)) if measure else {}
    found = estimated(job, reply_tokens=reply_tokens, speeds=speeds)
    if json:
        print_json(_as_json(found))
    else:
        _show(found)
        if job.division.folds:
            open_console().say(_MANY)


add = flagged(estimate, short=("target", "optimizer"))


def _as_json(found: Estimate) -> dict[str, Any]:
    return {
        "simulated": found.simulated,
        "steps": found.steps,
        "stages": [{"stage": line.stage, "role": line.role, **_figures(line)} for line in found.lines],
        "total": _figures(found),
        "assumptions": list(found.assumptions),
        "prices": dict(found.prices),
        "advice": found.advice,
    }


def _figures(of: Estimate | StageCost) -> dict[str, Any]:
    figures = {name: getattr(of, name) for name in ("calls", "tokens", "usd", "seconds")}
    return {name: None if one is None else one.as_json() for name, one in figures.items()}


def _show(found: Estimate) -> None:
    console = open_console()
    steps = count(found.steps, "step") + (", simulated" if found.simulated else "")
    title = f"Likely cost of {steps} (least to most)"
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
        likely, low, high = map(duration, (took.likely, took.low, took.high))
        console.print(f"Time on this machine, one call after the other: {likely} ({low} to {high}).")
    if found.advice:
        console.print(found.advice)
    prices = "; ".join(f"{role}: {source}" for role, source in found.prices.items())
    console.print(f"Assumed: {'; '.join(found.assumptions)}.", style="dim")
    console.print(f"Prices: {prices}.", style="dim")


def _cells(of: Estimate | StageCost) -> list[str]:
    usd = "unknown" if of.usd is None else f"${of.usd.likely:,.2f} ({of.usd.low:,.2f}–{of.usd.high:,.2f})"
    return [_count(of.calls), _count(of.tokens), usd]


def _count(one: Range) -> str:
    if round(one.low) == round(one.high):
        return _short(one.likely)
    return f"{_short(one.likely)} ({_short(one.low)}–{_short(one.high)})"


def _short(number: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:,.{0 if number >= 100 * size else 1}f}{unit}"
    return f"{number:,.0f}"
