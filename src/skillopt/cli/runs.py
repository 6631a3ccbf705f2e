"""`skillopt runs`: what was trained here, how it stands, and how several runs compare; `runs watch` follows
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillopt.cli._console import echo, open_console
from skillopt.cli._options import Json
from skillopt.cli._watch import RunsCommand
from skillopt.errors import UsageError

if TYPE_CHECKING:
    from skillopt.runs.listing import RunOverview

PANEL, PLACE = "Look at runs", 0


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("runs", cls=RunsCommand, rich_help_panel=PANEL)(runs)


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
    """List runs, or compare them side by side: scores, spending, and the settings in which they differ. Reads
    only.

    'skillopt runs watch [RUN]' follows one that is at work; its help says more.
    """
    from skillopt.cli import _report, _side_by_side
    from skillopt.runs import side_by_side
    from skillopt.runs.listing import Listing
    from skillopt.runs.reader import read_facts

    places = folders or [Path("outputs")]
    found = []
    for run in Listing().read(_below(places)):
        if run.trouble:  # one damaged folder must not hide the others
            echo(f"{run.folder}: {run.trouble}", err=True)
        else:
            found.append(run)
    if compare or len(places) > 1:
        told = side_by_side.compare([(run.folder, read_facts(run.folder)) for run in found])
        if json:
            _report.print_json(told.as_json())
        else:
            _side_by_side.show(told)
    elif json:
        _report.print_json({"runs": [run.as_json() for run in found]})
    elif not found:
        echo(f"No runs in {places[0]}.")
    else:
        for run in found:
            _show(run)


def _below(places: Sequence[Path]) -> list[Path]:
    """The runs in and below some folders, each once."""
    from skillopt.runs.reader import is_run

    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise UsageError(f"There is no folder {place}. Name one that holds runs: skillopt runs FOLDER.")
        homes = sorted({path.parent for path in place.rglob("events.jsonl") if is_run(path.parent)})
        if len(places) > 1 and not homes:
            raise UsageError(f"{place} holds no run, and there is none below it.")
        for home in homes:
            found.setdefault(home.resolve(), home)
    return list(found.values())


def _show(run: RunOverview) -> None:
    from rich.text import Text

    from skillopt.runs import words

    console = open_console()
    head = Text(str(run.folder), style="bold")
    head.append(f"  {run.status}", style={"finished": "green", "running": "cyan"}.get(run.status, "yellow"))
    head.append(f"  step {run.step}/{run.steps}")
    if run.simulated:
        head.append("  simulated", style="yellow")
    console.print(head, soft_wrap=True)
    console.print(
        Text(f"  {run.benchmark} · target {run.target} · optimizer {run.optimizer}"), soft_wrap=True
    )
    test = words.NOT_MEASURED
    if run.test:
        test = f"{words.score(run.test.get('seed'))} -> {words.score(run.test.get('best'))}"
    looks = f" ({run.looks} looks)" if run.looks > 1 else ""
    val = f"{words.score(run.baseline)} -> {words.score(run.best)}"
    spent = words.spent(run.calls, run.tokens, run.usd)
    console.print(Text(f"  val {val} · test {test}{looks} · {spent}"), soft_wrap=True)
