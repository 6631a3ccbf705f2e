"""`skillopt runs`: what was trained here, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillopt.cli._options import Json
from skillopt.errors import SkillOptError, UsageError

if TYPE_CHECKING:
    from skillopt.cli._folder import RunView

PANEL, PLACE = "Look at runs", 0


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("runs", rich_help_panel=PANEL)(runs)


def runs(
    folder: Annotated[Path, typer.Argument(help="A run, or a folder with runs somewhere below it.")] = Path("outputs"), json: Json = False
) -> None:
    """List runs: benchmark, models, how far, scores, spending. Reads only; a run at work is not disturbed."""
    from skillopt.cli import _report
    from skillopt.cli._folder import is_run, open_run

    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name one that holds runs: skillopt runs FOLDER.")
    homes = sorted({path.parent for path in folder.rglob("events.jsonl") if is_run(path.parent)})
    found = []
    for home in homes:
        try:
            found.append(_row(open_run(home)))
        except SkillOptError as error:  # one damaged folder must not hide the others
            typer.echo(f"{home}: {error}", err=True)
    found = [row for row in found if row]
    if json:
        _report.print_json({"runs": found})
    elif not found:
        typer.echo(f"No runs in {folder}.")
    else:
        for row in found:
            _show(row)


def _row(run: RunView) -> dict[str, Any]:
    """One run in figures; nothing for a folder of `eval`, which is no training run."""
    if run.started is None:
        return {}
    state = run.state or {}
    calls, tokens, usd = run.spending()
    return {
        "folder": str(run.folder),
        "benchmark": run.started.benchmark,
        "target": run.started.target,
        "optimizer": run.started.optimizer,
        "simulated": run.started.simulated,
        "status": run.status,
        "step": state.get("step", 0),
        "steps": run.started.steps,
        "baseline": state.get("baseline_score"),
        "best": state.get("best_score"),
        "test": run.test,
        "calls": calls,
        "tokens": tokens,
        "usd": usd,
    }


def _show(row: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from skillopt.cli import _words as words

    console = Console(highlight=False)
    colour = {"finished": "green", "running": "cyan"}.get(row["status"], "yellow")
    head = Text(row["folder"], style="bold")
    head.append(f"  {row['status']}", style=colour)
    head.append(f"  step {row['step']}/{row['steps']}")
    if row["simulated"]:
        head.append("  simulated", style="yellow")
    console.print(head, soft_wrap=True)
    console.print(Text(f"  {row['benchmark']} · target {row['target']} · optimizer {row['optimizer']}"), soft_wrap=True)
    val = f"val {words.score(row['baseline'])} -> {words.score(row['best'])}"
    test = f"test {words.score(row['test'].get('seed'))} -> {words.score(row['test'].get('best'))}" if row["test"] else "test not measured"
    console.print(Text(f"  {val} · {test} · {words.spent(row['calls'], row['tokens'], row['usd'])}"), soft_wrap=True)
