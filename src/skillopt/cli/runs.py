"""`skillopt runs`: list runs, compare them side by side, or watch one (`runs watch`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import echo, open_console, print_json
from skillopt.cli._options import Json, simple
from skillopt.cli._watch import RunsCommand
from skillopt.errors import UsageError
from skillopt.runs import side_by_side, words
from skillopt.runs.listing import Listing, RunOverview
from skillopt.runs.reader import is_part, is_run, read_facts

PANEL, PLACE = "Look at runs", 0


def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...",
            help="Runs, or folders with runs below them; 'outputs' when left out. Two or more are compared.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare all runs that are found, side by side.")
    ] = False,
    json: Json = False,
) -> None:
    """List runs, the newest first, or compare them: scores, spending, settings that differ. Reads only.

    'skillopt runs watch [RUN]' follows one that is at work, 'skillopt runs show [RUN] [TASK...]' shows what
    was asked and answered; their help says more.
    """
    places = folders or [Path("outputs")]
    found = []
    for run in Listing().read(_below(places)):
        if run.trouble and run.folder in places:
            raise UsageError(run.trouble)
        if run.trouble:  # one damaged folder must not hide the others
            echo(f"{run.folder}: {run.trouble}", err=True)
        else:
            found.append(run)
    if compare or len(places) > 1:
        told = side_by_side.compare([(run.folder, read_facts(run.folder)) for run in found])
        if json:
            print_json(told.as_json())
        else:
            _show_side_by_side(told)
        return
    found.sort(key=lambda run: run.changed, reverse=True)
    if json:
        print_json({"runs": [run.as_json() for run in found]})
    elif not found:
        echo(f"No runs in {places[0]}.")
    else:
        for run in found:
            _show(run)


add = simple(runs, cls=RunsCommand)


def _below(places: Sequence[Path]) -> list[Path]:
    """The runs in and below some folders, each once."""
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise UsageError(f"There is no folder {place}. Name one that holds runs: skillopt runs FOLDER.")
        below = {path.parent for path in place.rglob("events.jsonl")}
        homes = sorted(
            home for home in below if is_run(home) and (place in (home, home.parent) or not is_part(home))
        )
        if len(places) > 1 and not homes:
            raise UsageError(f"{place} holds no run, and there is none below it.")
        for home in homes:
            found.setdefault(home.resolve(), home)
    return list(found.values())


def _show(run: RunOverview) -> None:
    """One line: when, where, how it stands, of which skill, scores, cost."""
    line = Text(f"{datetime.fromtimestamp(run.changed):%Y-%m-%d %H:%M}  ", style="dim")
    line.append(str(run.folder), style="bold")
    line.append(f"  {run.status}", style={"finished": "green", "running": "cyan"}.get(run.status, "yellow"))
    test = words.NOT_MEASURED
    if run.test:
        test = f"{words.score(run.test.get('seed'))} -> {words.score(run.test.get('best'))}"
    looks = f" ({run.looks} looks)" if run.looks > 1 else ""
    val = f"{words.score(run.baseline)} -> {words.score(run.best)}"
    line.append(f"  step {run.step}/{run.steps}  {run.skill or run.benchmark}  val {val}  test {test}{looks}")
    line.append(f"  cost {words.money(run.usd)}{'  simulated' if run.simulated else ''}")
    open_console().say(line)


def _show_side_by_side(told: side_by_side.Compared) -> None:
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
        console.say(f"{name}: {one.claim or 'no claim yet'}")
    for remark in told.remarks:
        console.say(remark, "yellow")
