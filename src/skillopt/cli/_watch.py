"""`skillopt runs watch`: what a terminal shows of a run that another process works on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from skillopt.cli._answers import show
from skillopt.cli._console import SafeConsole, echo, open_console
from skillopt.cli._options import NewestRun
from skillopt.cli._progress import LiveView, PlainLines, panel
from skillopt.errors import UsageError
from skillopt.runs.reader import RunReader, find_run

EVERY = 0.5
"""Seconds between two looks."""
FIRST_LINES = 8
"""How many of the latest decisions are shown at the start."""


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
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a run that is not there yet.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Show where it stands and end.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print every event as one line of JSON instead.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain lines instead of a live view, also on a terminal.")
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
            _show(watcher, open_console(stderr=True), plain=plain)
            _conclude(watcher, console)
    except KeyboardInterrupt:
        echo("No longer watching; the run goes on.", err=True)


def _show(watcher: RunReader, console: Console, *, plain: bool) -> None:
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
    console.say(said.get(watcher.state, ""))


_COMMANDS: Mapping[str, Callable[..., None]] = {"watch": watch, "show": show}
