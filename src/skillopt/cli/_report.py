"""Decides what is said at the end of a run: one table, one claim, one path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skillopt.runs import words

if TYPE_CHECKING:
    from skillopt.api import Result


def print_json(data: Any) -> None:
    """One JSON value on stdout."""
    typer.echo(
        json.dumps(data, indent=2, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()
    )


def as_json(result: Result) -> dict[str, Any]:
    """The summary, with the folder and the file to use."""
    return {
        **result.summary,
        "folder": str(result.folder),
        "best_skill_path": str(result.folder / "best_skill.md"),
    }


def show(result: Result, *, subject: str, quiet: bool) -> None:
    """Print how the run of that subject ended; quiet is the claim and the file."""
    summary = result.summary
    console = Console(highlight=False)
    if not quiet:
        console.print()
        console.print(_heading(summary, subject))
        console.print(scores(summary))
        console.print(facts(result))
    console.print(Text(result.claim, style="bold"), soft_wrap=True)
    for remark in remarks(summary):
        console.print(Text(remark, style="yellow"), soft_wrap=True)
    console.print(Text(f"Best skill: {result.folder / 'best_skill.md'}"), soft_wrap=True)


def scores(summary: Mapping[str, Any]) -> Table:
    """Seed against best, on val and on the sealed test."""
    compared = summary["test"]["comparison"]
    table = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD)
    for name in (
        "",
        f"val ({summary['gate_metric']})",
        (
            "sealed test"
            if compared is None
            else f"sealed test ({summary['test']['metric']}, n = {compared['n']})"
        ),
    ):
        table.add_column(name, no_wrap=True)
    before, after = summary["baseline_gate_score"], summary["best_gate_score"]
    if compared is None:
        for name, val in (("seed", before), ("best", after)):
            table.add_row(name, words.score(val), words.NOT_MEASURED)
        table.add_row("change", words.change(before, after))
        return table
    low, high = compared["interval"]
    table.add_row("seed", words.score(before), words.score(compared["before"]))
    table.add_row("best", words.score(after), words.score(compared["after"]))
    if summary["final_test_hard"] is not None:
        table.add_row("last", "", words.score(summary["final_test_hard"]))
    table.add_row(
        "change",
        words.change(before, after),
        f"{compared['delta']:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}",
    )
    table.add_row("", "", f"p = {compared['p']:.2g} ({compared['test']})")
    table.add_row("tasks", "", f"{len(compared['fixed'])} fixed, {len(compared['broken'])} broken")
    return table


def facts(result: Result) -> Table:
    """What was decided and what was paid."""
    summary = result.summary
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("", "")
    grid.add_row("steps", f"{len(result.steps)}: {words.outcomes(record.action for record in result.steps)}")
    paid = summary["spending"]
    grid.add_row("spent", words.spent(paid["calls"], paid["tokens"], paid["usd"]))
    grid.add_row("time", words.duration(summary["total_wall_time_s"]))
    grid.add_row("", "")
    return grid


def remarks(summary: Mapping[str, Any]) -> Sequence[str]:
    """What a reader must know before he believes the figures; changes that passed no gate stand
    in the claim.
    """
    said = []
    if not summary["verified"]:
        said.append("Unverified: fewer than 5 val tasks decided.")
    if summary["val_tasks_left_out"]:
        said.append(
            f"Left out of the gate, not measurable at baseline: {', '.join(summary['val_tasks_left_out'])}."
        )
    if summary["test"]["left_out"] and summary["test"]["measured"]:
        said.append(f"Left out of the test, not measurable: {', '.join(summary['test']['left_out'])}.")
    attempts = summary["spending"]["attempts"]
    unsettled = attempts.get("unreported", 0) + attempts.get("open", 0)
    if unsettled:
        said.append(
            f"{words.count(unsettled, 'call')} ended without a usage report and"
            f" {'is' if unsettled == 1 else 'are'} charged as reserved:"
            f" {summary['spending']['tokens_as_reserved']:,} tokens."
        )
    if summary["spending"]["more_than_reserved"]:
        said.append(f"Used more than was reserved: {'; '.join(summary['spending']['more_than_reserved'])}.")
    if summary.get("stopped_because"):
        said.append(f"Training stopped before its plan ended: {summary['stopped_because']}.")
    if summary.get("ended_early"):
        said.append(str(summary["ended_early"]))
    return said


def _heading(summary: Mapping[str, Any], subject: str) -> Text:
    ended = (
        "Training finished"
        if summary["status"] == "finished"
        else "The budget ended training before its plan"
    )
    heading = Text(f"{ended}: {subject}", style="bold")
    if summary["simulated"]:
        heading.append("  simulated ", style="black on yellow")
    return heading
