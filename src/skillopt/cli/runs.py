"""`skillopt runs`: what was trained here, how it stands, and how several runs compare; `runs watch` follows
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli._options import Json
from skillopt.cli._watch import RunsCommand
from skillopt.errors import SkillOptError, UsageError

if TYPE_CHECKING:
    from skillopt.runs.folder import RunView

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

    places = folders or [Path("outputs")]
    found = [
        run for run in _below(places) if run.started is not None
    ]  # a folder of `eval` is no training run
    if compare or len(places) > 1:
        told = _side_by_side.compare(found)
        if json:
            _report.print_json(told.as_json())
        else:
            _side_by_side.show(told)
    elif json:
        _report.print_json({"runs": [_row(run) for run in found]})
    elif not found:
        typer.echo(f"No runs in {places[0]}.")
    else:
        for run in found:
            _show(_row(run))


def _below(places: Sequence[Path]) -> list[RunView]:
    """The runs in and below some folders, each once."""
    from skillopt.runs.folder import is_run, open_run

    found: dict[Path, RunView] = {}
    for place in places:
        if not place.is_dir():
            raise UsageError(f"There is no folder {place}. Name one that holds runs: skillopt runs FOLDER.")
        homes = sorted({path.parent for path in place.rglob("events.jsonl") if is_run(path.parent)})
        if len(places) > 1 and not homes:
            raise UsageError(f"{place} holds no run, and there is none below it.")
        for home in homes:
            try:
                found.setdefault(home.resolve(), open_run(home))
            except SkillOptError as error:  # one damaged folder must not hide the others
                typer.echo(f"{home}: {error}", err=True)
    return list(found.values())


def _row(run: RunView) -> dict[str, Any]:
    """One run in figures."""
    from skillopt.api import looks_of

    assert run.started is not None
    state = run.state
    calls, tokens, usd = run.spending()
    return {
        "folder": str(run.folder),
        "benchmark": run.started.benchmark,
        "target": run.started.target,
        "optimizer": run.started.optimizer,
        "simulated": run.started.simulated,
        "status": run.status,
        "step": 0 if state is None else state.step,
        "steps": run.started.steps,
        "baseline": None if state is None else state.baseline_score,
        "best": None if state is None else state.best_score,
        "test": run.test,
        "looks": looks_of(run.folder),
        "calls": calls,
        "tokens": tokens,
        "usd": usd,
    }


def _show(row: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from skillopt.runs import words

    console = Console(highlight=False)
    colour = {"finished": "green", "running": "cyan"}.get(row["status"], "yellow")
    head = Text(row["folder"], style="bold")
    head.append(f"  {row['status']}", style=colour)
    head.append(f"  step {row['step']}/{row['steps']}")
    if row["simulated"]:
        head.append("  simulated", style="yellow")
    console.print(head, soft_wrap=True)
    console.print(
        Text(f"  {row['benchmark']} · target {row['target']} · optimizer {row['optimizer']}"), soft_wrap=True
    )
    val = f"val {words.score(row['baseline'])} -> {words.score(row['best'])}"
    test = (
        f"test {words.score(row['test'].get('seed'))} -> {words.score(row['test'].get('best'))}"
        if row["test"]
        else "test not measured"
    )
    looks = f" ({row['looks']} looks)" if row["looks"] > 1 else ""
    console.print(
        Text(f"  {val} · {test}{looks} · {words.spent(row['calls'], row['tokens'], row['usd'])}"),
        soft_wrap=True,
    )
