"""`skillopt estimate`: what a training run will probably cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli import _options
from skillopt.cli._console import open_console
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json, ShortOptimizer, ShortTarget

if TYPE_CHECKING:
    from skillopt.estimation import Estimate, Range, StageCost

PANEL, PLACE = "Train and measure", 3


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(app, "estimate", estimate, panel=PANEL, full=full)


def estimate(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    target: ShortTarget = None,
    optimizer: ShortOptimizer = None,
    cfg_options: CfgOptions = None,
    target_reply: Annotated[
        int | None,
        typer.Option(
            "--target-reply",
            min=1,
            metavar="TOKENS",
            help="Length of the target's replies, where you know it.",
            show_default=False,
        ),
    ] = None,
    optimizer_reply: Annotated[
        int | None,
        typer.Option(
            "--optimizer-reply",
            min=1,
            metavar="TOKENS",
            help="Length of the optimizer's replies, where you know it.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say what a run will take in calls, tokens and dollars, stage by stage, before anything is sent.

    Each figure is what is likely, between what is possible with luck and without. With --budget it also says
    what that buys.
    """
    from skillopt.build import prepare
    from skillopt.cli import _report, _run
    from skillopt.estimation import estimate as estimated

    named = _options.with_models(flags, target=target, optimizer=optimizer)
    job = prepare(
        _run.configure(_options.config_name(config_argument, config), named, cfg_options), needs_key=False
    )
    given = {"target": target_reply, "optimizer": optimizer_reply}
    reply_tokens: Any = {role: tokens for role, tokens in given.items() if tokens is not None}
    found = estimated(job, reply_tokens=reply_tokens)
    if json:
        _report.print_json(_as_json(found))
    else:
        _show(found)


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
    ranges = {"calls": of.calls, "tokens": of.tokens, "usd": of.usd}
    return {
        name: None
        if one is None
        else {"low": round(one.low, 4), "likely": round(one.likely, 4), "high": round(one.high, 4)}
        for name, one in ranges.items()
    }


def _show(found: Estimate) -> None:
    from rich.table import Table

    console = open_console()
    steps = f"{found.steps} steps" + (", simulated" if found.simulated else "")
    table = Table(
        title=f"Likely cost of {steps} (least to most)", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("stage")
    table.add_column("role")
    for name in ("calls", "tokens", "dollars"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in found.lines:
        table.add_row(line.stage, line.role, *_cells(line))
    table.add_section()
    table.add_row("total", "", *_cells(found), style="bold")
    console.print(table)
    console.print()
    if found.advice:
        console.print(found.advice)
    console.print("Assumed: " + "; ".join(found.assumptions) + ".", style="dim")
    console.print(
        "Prices: " + "; ".join(f"{role}: {source}" for role, source in found.prices.items()) + ".",
        style="dim",
    )


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
