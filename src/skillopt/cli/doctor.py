"""`skillopt doctor`: whether everything a run needs is there, and what to do where it is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli import _options
from skillopt.cli._console import open_console
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json, Quiet
from skillopt.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from skillopt.doctor import CheckResult, Examination

PANEL, PLACE = "Look things up", 2
_MARKS = {"fine": ("✓", "green"), "note": ("!", "yellow"), "fix": ("✗", "red"), "skipped": ("-", "dim")}
_CODES = "Exit codes: 0 nothing must be fixed · 2 something must be fixed before a run."


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(app, "doctor", doctor, panel=PANEL, full=full, epilog=_CODES)


def doctor(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    cfg_options: CfgOptions = None,
    no_calls: Annotated[
        bool, typer.Option("--no-calls", help="Ask no model anything; what only a call can tell is skipped.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check models, logins, prices, agent programs, sandbox, data and nights, and say what to do where
    something is missing.

    Each model answers a few tiny questions; what they cost is shown. Nothing is written to any run folder.
    """
    from skillopt.cli import _report, _run
    from skillopt.config import load
    from skillopt.doctor import Subject, examine
    from skillopt.redact import Scrubber

    problem, resolved = "", None
    try:
        name = _options.config_name(config_argument, config)
        resolved = load(
            name, flags=flags, options=list(cfg_options or ()), environ=os.environ, cwd=Path.cwd()
        )
    except UsageError as error:  # nothing else of the configuration can be checked then, but the machine can
        problem = str(error)
    subject = Subject(resolved=resolved, environ=os.environ, problem=problem, home=Path.home())
    with _run.scrubbed(Scrubber(resolved.secrets if resolved is not None else ())):
        found = _watched(lambda news: examine(subject, calls=not no_calls, news=news), quiet=quiet)
    if json:
        _report.print_json(_as_json(found))
    else:
        _show(found)
    if not found.is_fine:
        raise typer.Exit(UsageError.exit_code)


def _watched(run: Callable[..., Any], *, quiet: bool) -> Examination:
    """Run with a live list of the open checks on a terminal; elsewhere nothing is shown before the end."""
    from rich.live import Live
    from rich.text import Text

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
            worst = next(
                (state for state in ("fix", "note", "fine") if any(one.state == state for one in findings)),
                "skipped",
            )
            live.console.print(_line(worst, f"{title} checked"))

    if watches:
        live.start()
    try:
        examined: Examination = asyncio.run(run(news))
    finally:
        live.stop()
    return examined


def _as_json(found: Examination) -> dict[str, Any]:
    return {
        "fine": found.is_fine,
        "checks": [
            {
                "area": one.area,
                "name": one.name,
                "state": one.state,
                "text": one.text,
                **({"remedy": one.remedy} if one.remedy else {}),
                **({"facts": dict(one.facts)} if one.facts else {}),
            }
            for one in found.findings
        ],
        "spent": {"calls": found.calls, "tokens": found.tokens, "usd": found.usd},
    }


def _show(found: Examination) -> None:
    from rich.text import Text

    from skillopt.runs.words import count

    console = open_console()
    area = ""
    for one in found.findings:
        if one.area != area:
            area = one.area
            console.print(Text(area, style="bold"))
        console.print(_line(one.state, f"{one.name}: {one.text}"), soft_wrap=True)
        if one.remedy:
            _indented(console, one.remedy, "" if one.state == "fix" else "dim")
    fixes = sum(one.state == "fix" for one in found.findings)
    console.print()
    cost = "an unknown amount" if found.usd is None else f"${found.usd:.6f}"
    spent = (
        f"{count(found.calls, 'call')} made, {count(found.tokens, 'token')}, cost {cost}"
        if found.calls
        else "no calls made"
    )
    verdict = f"{count(fixes, 'thing')} must be fixed" if fixes else "Nothing must be fixed"
    console.print(f"{verdict}; {spent}.", style="bold red" if fixes else "bold green", soft_wrap=True)


def _line(state: str, text: str) -> Text:
    from rich.text import Text

    mark, style = _MARKS[state]
    line = Text("  ")
    line.append(mark, style=style)
    return line.append(f" {text}", style="dim" if state == "skipped" else "")


def _indented(console: Console, text: str, style: str) -> None:
    from rich.text import Text

    for line in text.split("\n"):
        console.print(Text(f"      {line}", style=style), soft_wrap=True)
