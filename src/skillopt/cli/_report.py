"""What is said at the end of a run: one table, one claim, one path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import echo, open_console
from skillopt.runs import words
from skillopt.runs.side_by_side import score_table

if TYPE_CHECKING:
    from skillopt.api import Result
    from skillopt.runs.values import Facts


def print_json(data: Any) -> None:
    """One JSON value on stdout."""
    echo(json.dumps(data, indent=2, ensure_ascii=False, default=str).encode("utf-8", "replace").decode())


def as_json(result: Result) -> dict[str, Any]:
    """The summary, with the folder and the file to use."""
    return {
        **result.summary,
        "folder": str(result.folder),
        "best_skill_path": str(result.folder / "best_skill.md"),
    }


def show(result: Result, *, subject: str, quiet: bool) -> None:
    """Print how the run of that subject ended; quiet is the claim, what limits it, and the file."""
    from skillopt.runs.reader import read_facts

    facts = read_facts(result.folder)
    console = open_console()
    if not quiet:
        ended = (
            "Training finished"
            if result.status == "finished"
            else "The budget ended training before its plan"
        )
        heading = Text(f"\n{ended}: {subject}", style="bold")
        if facts.simulated:
            heading.append("  simulated ", style="black on yellow")
        console.print(heading)
        console.print(_scores(facts))
        console.print(_figures(facts, result.summary["total_wall_time_s"]))
    console.print(Text(result.claim, style="bold"), soft_wrap=True)
    for remark in facts.remarks:
        if remark not in result.claim:
            console.print(Text(remark, style="yellow"), soft_wrap=True)
    console.print(Text(f"Best skill: {result.folder / 'best_skill.md'}"), soft_wrap=True)


def _scores(facts: Facts) -> Table:
    """Seed against best, on val and on the sealed test."""
    heads, *rows = score_table(facts)
    table = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD)
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _figures(facts: Facts, seconds: float) -> Table:
    """What was decided and what was paid."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    spent = facts.spent
    for name, text in (
        ("", ""),
        ("steps", f"{len(facts.steps)}: {words.outcomes(change.action for change in facts.steps)}"),
        ("spent", words.spent(spent.calls, spent.tokens, spent.dollars)),
        ("time", words.duration(seconds)),
        ("", ""),
    ):
        grid.add_row(name, text)
    return grid
