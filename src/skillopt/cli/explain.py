"""`skillopt explain`: recompute a verdict from stored rows alone, and show what decided it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillopt.cli._console import open_console
from skillopt.cli._options import Json

if TYPE_CHECKING:
    from skillopt.runs.evidence import VerdictEvidence

PANEL, PLACE = "Look at runs", 1


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("explain", rich_help_panel=PANEL)(explain)


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    step: Annotated[
        str,
        typer.Argument(
            help=(
                "A step's number, or 'epoch-N' for the slow update of epoch N; 'N/c0', 'N/c1' where a"
                " step tried several candidates."
            )
        ),
    ],
    json: Json = False,
) -> None:
    """Recompute the gate's verdict on a step from the stored rows and show the evidence. Ends with 1 if it
    differs from the record.
    """
    from skillopt.cli import _report
    from skillopt.runs.evidence import gather
    from skillopt.runs.reader import read_run

    evidence = gather(read_run(run), step)
    if json:
        _report.print_json(evidence.as_json())
    else:
        _show(evidence)
    if not evidence.agrees:
        raise typer.Exit(1)


def _show(evidence: VerdictEvidence) -> None:
    from rich.table import Table
    from rich.text import Text

    from skillopt.runs import words

    console = open_console()
    judged = evidence.judged
    console.print(Text(f"{evidence.name}: {words.outcome(judged.action)}", style="bold"), soft_wrap=True)
    console.print(Text(f"recorded   {judged.why}"), soft_wrap=True)
    console.print(Text(f"recomputed {evidence.recomputed}: {evidence.reason}"), soft_wrap=True)
    if evidence.others:
        console.print(Text(f"The same step also has {'; '.join(evidence.others)}."), soft_wrap=True)
    if evidence.rows:
        n = evidence.total
        console.print(
            Text(
                f"I, the incumbent's sum: {float(evidence.bar):g} of {n} ({float(evidence.bar / n):.4f}).  U,"
                f" the candidate's sum with rows not read counted in full: {float(evidence.upper):g}"
                f" ({float(evidence.upper / n):.4f}).  Metric: {judged.metric}. Policy: {evidence.policy}."
            ),
            soft_wrap=True,
        )
        prefix = (
            "an accept needs every row"
            if evidence.recomputed == "accept"
            else "the shortest prefix that fixes the verdict"
        )
        console.print(Text(f"Decided on {evidence.read} of {n} rows, {prefix}:"), soft_wrap=True)
        table = Table(show_edge=False, pad_edge=False)
        for name in ("row", "task", "draw", "incumbent", "candidate", "U after it"):
            table.add_column(name, justify="left" if name == "task" else "right", overflow="fold")
        for number, row in enumerate(evidence.rows, start=1):
            mine = f"invalid ({row.invalid})" if row.candidate is None else f"{float(row.candidate):g}"
            table.add_row(
                str(number),
                Text(row.task),
                str(row.draw),
                f"{float(row.incumbent):g}",
                mine,
                f"{float(row.upper):g}",
            )
        console.print(table)
    if evidence.edits:
        console.print(Text("Edits and how they ended:"))
        for edit in evidence.edits:
            why = f" ({edit.reason})" if edit.reason else ""
            style = "green" if edit.state == "applied" else "dim"
            console.print(
                Text(f"  {edit.state:<11}{words.edit(edit.edit)}{why}", style=style), soft_wrap=True
            )
    if evidence.hedged:
        told = f"Slow calls behind it that were asked twice, the first reply counting: {evidence.hedged}."
        console.print(Text(told), soft_wrap=True)
    same = (
        "The recomputed verdict equals the recorded one."
        if evidence.agrees
        else "The recomputed verdict DIFFERS from the recorded one."
    )
    console.print(Text(same, style="green" if evidence.agrees else "bold red"))
