"""How evaluations read on a terminal: a row a skill, a column a target, each comparison in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from skillopt.api import Evaluated, Matrix, Missing, Versus
from skillopt.cli._console import open_console
from skillopt.runs import words
from skillopt.tasks.task import Split


def show(
    found: Matrix, compared: Sequence[Versus], remarks: Sequence[str], folder: Path, *, simulated: bool
) -> None:
    """Print what was measured, what is missing, and where the rows are."""
    console = open_console()
    several = len({target for target, _, _ in _asked(found)}) > 1
    console.print(table(found, simulated=simulated) if several else _list(found, simulated=simulated))
    for one in compared:
        console.say("\n".join(_said(one, several=several)))
    for remark in remarks:
        console.say(remark, "yellow")
    console.say(f"Rows: {folder / 'results.jsonl'}")


def table(found: Matrix, *, simulated: bool) -> Table:
    """A row a skill and split, a column a target; a cell is the mean hard score, the soft one in brackets,
    and what it rests on.
    """
    cells = {
        (one.target, one.skill, one.split): (
            f"{words.score(one.hard)} ({words.score(one.soft)})\nn {one.n}, {one.invalid} invalid"
        )
        for one in found.evaluations
    }
    asked = _asked(found)
    targets = list(dict.fromkeys(target for target, _, _ in asked))
    drawn = _empty(f"{'Simulated: ' if simulated else ''}hard (soft), n tasks")
    for target in targets:
        drawn.add_column(Text(target), overflow="fold")
    for skill, split in dict.fromkeys((skill, split) for _, skill, split in asked):
        figures = [cells.get((target, skill, split), words.NOT_MEASURED) for target in targets]
        drawn.add_row(Text(skill), split, *figures)
    return drawn


def _asked(found: Matrix) -> list[tuple[str, str, Split]]:
    """Every cell that was asked for, measured or not."""
    cells: list[Evaluated | Missing] = [*found.evaluations, *found.missing]
    return [(one.target, one.skill, one.split) for one in cells]


def _list(found: Matrix, *, simulated: bool) -> Table:
    drawn = _empty("Simulated" if simulated else None)
    for name in ("hard", "soft", "n", "invalid"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for one in found.evaluations:
        figures = (words.score(one.hard), words.score(one.soft), str(one.n), str(one.invalid))
        drawn.add_row(Text(one.skill), one.split, *figures)
    for lost in found.missing:
        drawn.add_row(Text(lost.skill), lost.split, words.NOT_MEASURED)
    return drawn


def _empty(title: str | None) -> Table:
    drawn = Table(show_edge=False, pad_edge=False, title=title, title_justify="left")
    drawn.add_column("skill", overflow="fold")
    drawn.add_column("split")
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
    scores = f"{found.before:.3f} to {found.after:.3f}, {found.delta:+.3f}"
    yield f"{head}, {words.count(found.n, 'task')}{draws}): {scores}"
    chance = "; this difference can be chance" if found.delta and found.p >= 0.05 else ""
    yield f"  {words.interval(found.interval)}, p = {found.p:.2g} ({found.test}){chance}"
    for word, tasks in (("fixed", found.fixed), ("broken", found.broken)):
        yield f"  {len(tasks)} {word}{': ' if tasks else ''}{', '.join(tasks)}"
    if one.left_out:
        yield f"  {len(one.left_out)} left out, not measurable: {', '.join(one.left_out)}"
