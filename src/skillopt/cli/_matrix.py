"""Decides how evaluations read on a terminal: a row a skill, a column a target, and each comparison in a few
lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from skillopt.cli._console import open_console
from skillopt.runs import words

if TYPE_CHECKING:
    from skillopt.api import Evaluated, Matrix, Versus
    from skillopt.tasks.task import Split


def show(
    found: Matrix, compared: Sequence[Versus], remarks: Sequence[str], folder: Path, *, simulated: bool
) -> None:
    """Print what was measured, what is missing, and where the rows are."""
    console = open_console()
    several = len({target for target, _, _ in _asked(found)}) > 1
    console.print(table(found, simulated=simulated) if several else _list(found, simulated=simulated))
    for one in compared:
        console.print(Text("\n".join(_said(one, several=several))), soft_wrap=True)
    for remark in remarks:
        console.print(Text(remark, style="yellow"), soft_wrap=True)
    console.print(Text(f"Rows: {folder / 'results.jsonl'}"), soft_wrap=True)


def table(found: Matrix, *, simulated: bool) -> Table:
    """A row a skill and split, a column a target; a cell is the mean hard score, the soft one in brackets,
    and what it rests on.
    """
    cells = {(one.target, one.skill, one.split): _cell(one) for one in found.evaluations}
    asked = _asked(found)
    targets = list(dict.fromkeys(target for target, _, _ in asked))
    drawn = Table(show_edge=False, pad_edge=False, title=_title(simulated), title_justify="left")
    drawn.add_column("skill", overflow="fold")
    drawn.add_column("split")
    for target in targets:
        drawn.add_column(Text(target), overflow="fold")
    for skill, split in dict.fromkeys((skill, split) for _, skill, split in asked):
        drawn.add_row(
            Text(skill), split, *(cells.get((target, skill, split), words.NOT_MEASURED) for target in targets)
        )
    return drawn


def _asked(found: Matrix) -> list[tuple[str, str, Split]]:
    """Every cell that was asked for, measured or not."""
    measured = [(one.target, one.skill, one.split) for one in found.evaluations]
    return measured + [(one.target, one.skill, one.split) for one in found.missing]


def _title(simulated: bool) -> str:
    figures = "hard (soft), n tasks"
    return f"Simulated: {figures}" if simulated else figures


def _cell(one: Evaluated) -> str:
    return f"{words.score(one.hard)} ({words.score(one.soft)})\nn {one.n}, {one.invalid} invalid"


def _list(found: Matrix, *, simulated: bool) -> Table:
    drawn = Table(
        show_edge=False, pad_edge=False, title="Simulated" if simulated else None, title_justify="left"
    )
    drawn.add_column("skill", overflow="fold")
    drawn.add_column("split")
    for name in ("hard", "soft", "n", "invalid"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for one in found.evaluations:
        drawn.add_row(
            Text(one.skill),
            one.split,
            words.score(one.hard),
            words.score(one.soft),
            str(one.n),
            str(one.invalid),
        )
    for lost in found.missing:
        drawn.add_row(Text(lost.skill), lost.split, words.NOT_MEASURED)
    return drawn


def _said(one: Versus, *, several: bool) -> Iterator[str]:
    """A comparison in a few lines, no more sure of itself than it is."""
    yield ""
    draws = f", {one.repeats} draws each" if one.repeats > 1 else ""
    subject = f"{one.skill} against {one.against}" + (f" with {one.target}" if several else "")
    head = f"{subject} on {one.split} ({one.metric}"
    found = one.comparison
    if found is None:
        yield f"{head}{draws}): {words.NOT_MEASURED}. {one.why}."
        return
    low, high = found.interval
    yield (
        f"{head}, {words.count(found.n, 'task')}{draws}): {found.before:.3f} to {found.after:.3f},"
        f" {found.delta:+.3f}"
    )
    chance = "" if found.p < 0.05 else "; this difference can be chance" if found.delta else ""
    yield f"  95 % interval {low:+.3f} to {high:+.3f}, p = {found.p:.2g} ({found.test}){chance}"
    for word, tasks in (
        ("fixed", found.fixed),
        ("broken", found.broken),
        ("left out, not measurable", one.left_out),
    ):
        if tasks or word != "left out, not measurable":
            yield f"  {len(tasks)} {word}{': ' if tasks else ''}{', '.join(tasks)}"
