"""`skillopt replay`: a run again in half a minute, in the terminal or on a page."""

from __future__ import annotations

import contextlib
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from skillopt.adoption import is_adopted
from skillopt.cli._console import SafeConsole, echo, open_console
from skillopt.cli._growth import frame
from skillopt.cli._options import NewestRun, simple
from skillopt.errors import UsageError
from skillopt.files import write_text
from skillopt.render.stairs import told
from skillopt.report import page as whole_page
from skillopt.runs.growth import Growth, growth
from skillopt.runs.reader import find_run, read_facts
from skillopt.runs.side_by_side import tested
from skillopt.runs.task_look import look_at_all
from skillopt.runs.values import Facts
from skillopt.runs.words import interval, score

PANEL, PLACE = "Look at runs", 3
PAGE = "replay.html"


def replay(
    run: NewestRun = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="How long it takes, from the seed to the end.")
    ] = 30.0,
    page: Annotated[
        bool, typer.Option("--page", help=f"As a page that plays by itself: RUN/{PAGE}, opened in a browser.")
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="With --page: open no browser.")] = False,
) -> None:
    """Show a run again: the val score climbs, SKILL.md grows, tasks turn. From its files alone; no calls.

    Where the output is no terminal, every change is a line and nothing is waited for. Ctrl-C ends it.
    """
    folder = find_run(run or Path("outputs"))
    facts = read_facts(folder)
    if facts.baseline is None:
        raise UsageError(f"The seed of {folder} was never measured, so there is nothing to show again.")
    if page:
        _write(folder, facts, seconds, opens=not no_open)
        return
    console, grown = open_console(), growth(facts)
    with contextlib.suppress(KeyboardInterrupt):
        _play(console, facts, grown, seconds)
    compared = facts.test.comparison
    if compared is not None:
        scores = f"{score(compared.before)} -> {score(compared.after)}, {interval(compared)}"
        console.say(f"{tested(facts.test)}: {scores}", "bold")
    console.say(facts.claim or "The run has made no claim yet.")
    for remark in facts.remarks:
        if remark not in facts.claim:
            console.say(remark, "yellow")


def _play(console: SafeConsole, facts: Facts, grown: Growth, seconds: float) -> None:
    if not console.is_terminal:
        for moment in grown.moments:
            console.say(told(moment))
        return
    last = len(grown.moments) - 1
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for k in range(last + 1):
            live.update(frame(facts, grown, k, console.width, console.height), refresh=True)
            time.sleep(seconds / (last + 1))
    console.print(frame(facts, grown, last, console.width, console.height))


def _write(folder: Path, facts: Facts, seconds: float, *, opens: bool) -> None:
    target = folder / PAGE
    try:
        looks = look_at_all(folder, facts)
        made = whole_page(facts, looks, is_adopted=is_adopted(folder), play=seconds)
        write_text(target, made, durable=False)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror or error}. 'skillopt report RUN --out FILE.html'"
            " writes a page elsewhere; its button Play does the same."
        ) from error
    echo(str(target))
    if opens:
        webbrowser.open(target.absolute().as_uri())


add = simple(replay)
