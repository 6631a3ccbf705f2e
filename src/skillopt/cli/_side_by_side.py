"""Several runs side by side on a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import open_console
from skillopt.runs import side_by_side


def show(told: side_by_side.Compared) -> None:
    """A column a run; claims and remarks below."""
    console = open_console()
    names = side_by_side.short_names(told.folders)
    drawn = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD)
    drawn.add_column("", style="dim", overflow="fold")
    for name in names:
        drawn.add_column(Text(name), overflow="fold")
    figures = [side_by_side.in_words(one) for one in told.facts]
    for row in figures[0]:
        drawn.add_row(row, *(Text(one[row]) for one in figures))
    if told.settings:
        drawn.add_section()
    for key, values in told.settings.items():
        drawn.add_row(key, *(Text("-" if value is None else value) for value in values))
    console.print(drawn)
    for name, one in zip(names, told.facts, strict=True):
        console.print(Text(f"{name}: {one.claim or 'no claim yet'}"), soft_wrap=True)
    for remark in told.remarks:
        console.print(Text(remark, style="yellow"), soft_wrap=True)
