"""`skillopt explain`: recompute a verdict from stored rows alone, and show what decided it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import open_console, print_json
from skillopt.cli._options import Json, simple
from skillopt.runs import words
from skillopt.runs.evidence import JudgedRow, VerdictEvidence, gather
from skillopt.runs.reader import read_run

PANEL, PLACE = "Look at runs", 1
_STEP = (
    "A step's number, or 'epoch-N' for the slow update of epoch N; 'N/c0', 'N/c1' where a step tried several"
    " candidates."
)


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    step: Annotated[str, typer.Argument(help=_STEP)],
    json: Json = False,
) -> None:
    """Recompute the gate's verdict on a step from stored rows; ends with 1 if it differs from the record."""
    evidence = gather(read_run(run), step)
    if json:
        print_json(evidence.as_json())
    else:
        _show(evidence)
    if not evidence.agrees:
        raise typer.Exit(1)


add = simple(explain)


def _show(evidence: VerdictEvidence) -> None:
    console = open_console()
    judged = evidence.judged
    console.say(f"{evidence.name}: {words.outcome(judged.action)}", "bold")
    console.say(f"recorded   {judged.why}")
    console.say(f"recomputed {evidence.recomputed}: {evidence.reason}")
    if evidence.others:
        console.say(f"The same step also has {'; '.join(evidence.others)}.")
    if evidence.rows:
        n = evidence.total
        console.say(
            f"I, the incumbent's sum: {float(evidence.bar):g} of {n} ({float(evidence.bar / n):.4f}).  U, the"
            f" candidate's sum with rows not read counted in full: {float(evidence.upper):g}"
            f" ({float(evidence.upper / n):.4f}).  Metric: {judged.metric}. Policy: {evidence.policy}."
        )
        is_taken = evidence.recomputed == "accept"
        prefix = "an accept needs every row" if is_taken else "the shortest prefix that fixes the verdict"
        console.say(f"Decided on {evidence.read} of {n} rows, {prefix}:")
        table = Table(show_edge=False, pad_edge=False)
        for name in ("row", "task", "draw", "incumbent", "candidate", "U after it"):
            table.add_column(name, justify="left" if name == "task" else "right", overflow="fold")
        for number, row in enumerate(evidence.rows, start=1):
            table.add_row(str(number), Text(row.task), str(row.draw), *_figures(row))
        console.print(table)
    if evidence.edits:
        console.say("Edits and how they ended:")
    for edit in evidence.edits:
        why = f" ({edit.reason})" if edit.reason else ""
        style = "green" if edit.state == "applied" else "dim"
        console.say(f"  {edit.state:<11}{words.edit(edit.edit)}{why}", style)
    if evidence.hedged:
        console.say(f"{evidence.hedged} slow calls behind it were asked twice; the first reply counted.")
    same = "equals" if evidence.agrees else "DIFFERS from"
    style = "green" if evidence.agrees else "bold red"
    console.say(f"The recomputed verdict {same} the recorded one.", style)


def _figures(row: JudgedRow) -> tuple[str, str, str]:
    mine = f"invalid ({row.invalid})" if row.candidate is None else f"{float(row.candidate):g}"
    return f"{float(row.incumbent):g}", mine, f"{float(row.upper):g}"
