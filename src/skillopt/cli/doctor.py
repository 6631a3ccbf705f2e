"""`skillopt doctor`: check whether everything a run needs is there, and what to do where it is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from skillopt.cli import _run
from skillopt.cli._console import open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Quiet, option
from skillopt.doctor import CheckResult, Examination, Subject, examine
from skillopt.errors import Stopped, UsageError
from skillopt.redact import Scrubber
from skillopt.runs.words import count

PANEL, PLACE = "Look things up", 2
_MARKS = {"fine": ("✓", "green"), "note": ("!", "yellow"), "fix": ("✗", "red"), "skipped": ("-", "dim")}
_CODES = (
    "Exit codes: 0 nothing must be fixed · something must be fixed before a run: 2 if nothing was paid, 3"
    " after paid calls."
)


def doctor(
    given: Given,
    no_calls: Annotated[
        bool, option("--no-calls", "Ask no model anything; what only a call can tell is skipped.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check models, logins, prices, agent programs, sandbox, data and nights, and say what to do where
    something is missing.

    Each model answers a few tiny questions; what they cost is shown. Nothing is written to any run folder.
    """
    problem, resolved = "", None
    try:
        resolved = _run.agreed(given.load(), force=given.force)
    except UsageError as error:  # nothing else of the configuration can be checked then, but the machine can
        problem = str(error)
    subject = Subject(resolved=resolved, environ=os.environ, problem=problem, home=Path.home())
    with _run.scrubbed(Scrubber(resolved.secrets if resolved is not None else ())):
        found = _watched(lambda news: examine(subject, calls=not no_calls, news=news), quiet=quiet)
    if json:
        print_json(_as_json(found))
    else:
        _show(found)
    if not found.is_fine:
        raise typer.Exit((Stopped if found.tokens else UsageError).exit_code)


add = flagged(doctor, short=("target", "optimizer"), epilog=_CODES)


def _watched(run: Callable[..., Any], *, quiet: bool) -> Examination:
    """Run with a live list of the open checks on a terminal; elsewhere nothing is shown before the end."""
    console = open_console(stderr=True)
    open_checks: list[str] = []

    def drawn() -> Text:
        return Text(f"checking: {', '.join(open_checks)}", style="dim") if open_checks else Text("")

    live = Live(console=console, get_renderable=drawn, refresh_per_second=8, transient=True)
    watches = console.is_terminal and not quiet

    def news(title: str, findings: Sequence[CheckResult] | None) -> None:
        if findings is None:
            open_checks.append(title)
            return
        open_checks.remove(title)
        if watches:
            states = {one.state for one in findings}
            worst = next((state for state in ("fix", "note", "fine") if state in states), "skipped")
            live.console.print(_line(worst, f"{title} checked"))

    with live if watches else nullcontext():
        examined: Examination = asyncio.run(run(news))
    return examined


def _as_json(found: Examination) -> dict[str, Any]:
    whole = [asdict(one) for one in found.findings]
    checks = [{name: value for name, value in one.items() if value not in ("", {})} for one in whole]
    spent = {"calls": found.calls, "tokens": found.tokens, "usd": found.usd}
    return {"fine": found.is_fine, "checks": checks, "spent": spent}


def _show(found: Examination) -> None:
    console = open_console()
    area = ""
    for one in found.findings:
        if one.area != area:
            area = one.area
            console.print(Text(area, style="bold"))
        console.say(_line(one.state, f"{one.name}: {one.text}"))
        for line in one.remedy.split("\n") if one.remedy else ():
            console.say(f"      {line}", "" if one.state == "fix" else "dim")
    fixes = sum(one.state == "fix" for one in found.findings)
    console.print()
    cost = "an unknown amount" if found.usd is None else f"${found.usd:.6f}"
    made = f"{count(found.calls, 'call')} made, {count(found.tokens, 'token')}, cost {cost}"
    verdict = f"{count(fixes, 'thing')} must be fixed" if fixes else "Nothing must be fixed"
    style = "bold red" if fixes else "bold green"
    console.say(f"{verdict}; {made if found.calls else 'no calls made'}.", style)


def _line(state: str, text: str) -> Text:
    mark, style = _MARKS[state]
    line = Text("  ")
    line.append(mark, style=style)
    return line.append(f" {text}", style="dim" if state == "skipped" else "")
