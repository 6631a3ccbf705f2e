"""`skillopt runs`: list runs, compare them side by side, or watch one (`runs watch`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from skillopt.cli._answers import show
from skillopt.cli._console import SafeConsole, coloured, echo, open_console, print_json
from skillopt.cli._options import Json, NewestRun, option, simple
from skillopt.cli._progress import LiveView, PlainLines, panel
from skillopt.errors import UsageError
from skillopt.runs import side_by_side, words
from skillopt.runs.listing import Listing, RunOverview
from skillopt.runs.reader import RunReader, find_run, is_part, is_run, read_facts

PANEL, PLACE = "Look at runs", 0
EVERY = 0.5
"""Seconds between two looks."""
FIRST_LINES = 8
"""How many of the latest decisions are shown at the start."""


def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...",
            help="Runs, or folders with runs below them; 'outputs' when left out. Two or more are compared.",
        ),
    ] = None,
    compare: Annotated[bool, option("--compare", "Compare all runs that are found, side by side.")] = False,
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


def _below(places: Sequence[Path]) -> list[Path]:
    """The runs in and below some folders, each once."""
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir() and ("outputs" / place).is_dir():
            place = "outputs" / place
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
    line = Text.assemble((f"{datetime.fromtimestamp(run.changed):%Y-%m-%d %H:%M}  ", "dim"))
    line.append(str(run.folder), style="bold")
    line.append(f"  {run.status}", style={"finished": "", "running": "cyan"}.get(run.status, "yellow"))
    test = words.NOT_MEASURED
    if run.test:
        test = f"{words.score(run.test.get('seed'))} -> {words.score(run.test.get('best'))}"
    looks = f" ({run.looks} looks)" if run.looks > 1 else ""
    val = f"{words.score(run.baseline)} -> {words.score(run.best)}"
    line.append(
        f"  step {run.step}/{run.steps}  {run.skill or run.benchmark}  val {val}  test {test}{looks}  "
    )
    line.append(run.significance, style=coloured(run.significance))
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
        styles = [coloured(one.significance) if row == side_by_side.PROVEN else "" for one in told.facts]
        drawn.add_row(row, *(Text(one[row], style) for one, style in zip(figures, styles, strict=True)))
    if told.settings:
        drawn.add_section()
    for key, values in told.settings.items():
        drawn.add_row(key, *(Text("-" if value is None else value) for value in values))
    console.print(drawn)
    for name, one in zip(names, told.facts, strict=True):
        console.say(f"{name}: {one.claim or 'no claim yet'}")
    for remark in told.remarks:
        console.say(remark, "yellow")


class RunsCommand(TyperCommand):
    """`runs`, which lists, and behind it `runs watch` and `runs show`. A folder of that name is `./watch`."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of whichever was asked for."""
        if args[:1] == ["list"] and not Path("list").exists():
            args = args[1:]  # what it does by itself
        if args[:1] not in ([name] for name in _COMMANDS):
            return super().make_context(info_name, args, parent=parent, **extra)
        app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
        app.command(args[0])(_COMMANDS[args[0]])
        command: Any = typer.main.get_command(app)
        return command.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)


def watch(
    run: NewestRun = None,
    wait: Annotated[bool, option("--wait", "Wait for a run that is not there yet.")] = False,
    once: Annotated[bool, option("--once", "Show where it stands and end.")] = False,
    json_lines: Annotated[
        bool, option("--json-lines", "Print every event as one line of JSON instead.")
    ] = False,
    plain: Annotated[
        bool, option("--plain", "Plain lines instead of a live view, also on a terminal.")
    ] = False,
) -> None:
    """Watch a run that any process works on: stage, scores, verdicts, calls, cost and time left. Reads only.

    Ends with the run. Ctrl-C ends the watching and leaves the run alone.
    """
    console = open_console()
    is_ahead = run is not None and wait and not run.exists()
    watcher = RunReader(run if run is not None and is_ahead else find_run(run or Path("outputs")))
    try:
        if json_lines:
            _print_events(watcher, once=once)
        elif once:
            watcher.follow()
            _conclude(watcher, console)
        else:
            _follow(watcher, open_console(stderr=True), plain=plain)
            _conclude(watcher, console)
    except KeyboardInterrupt:
        echo("No longer watching; the run goes on.", err=True)


def _follow(watcher: RunReader, console: Console, *, plain: bool) -> None:
    """Follow a run to its end: what was decided last, then everything as it comes."""
    watcher.follow()
    is_plain = plain or not console.is_terminal
    view = PlainLines(watcher.status, console) if is_plain else LiveView(watcher.status, console)
    if watcher.state == "waiting":
        echo(f"Waiting for a run in {watcher.folder}. Ctrl-C ends the waiting.", err=True)
    view.start()
    try:
        for line in watcher.lines[-FIRST_LINES:]:
            view.say(line.text)
        while watcher.state in ("waiting", "running"):
            time.sleep(EVERY)
            watcher.follow(view.tell)
    finally:
        view.close()


def _print_events(watcher: RunReader, *, once: bool) -> None:
    while True:
        watcher.follow(lambda event: print(event.model_dump_json()))
        sys.stdout.flush()
        if once or watcher.state in ("finished", "stopped"):
            return
        time.sleep(EVERY)


def _conclude(watcher: RunReader, console: SafeConsole) -> None:
    """Where it stands, and what that means."""
    facts = watcher.facts()
    if facts is None:
        raise UsageError(f"The run in {watcher.folder} has not begun.")
    console.print(panel(watcher.status))
    said = {
        "running": "It is running.",
        "finished": facts.claim or "It is finished.",
        "stopped": "No process works on it. Run the same training command again to go on.",
    }
    console.say(said.get(watcher.state, ""), coloured(facts.significance))


_COMMANDS: Mapping[str, Callable[..., None]] = {"watch": watch, "show": show}
add = simple(runs, cls=RunsCommand)
