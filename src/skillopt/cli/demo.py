"""`skillopt demo`: a whole training run in the simulated world, without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli import EXIT_CODES
from skillopt.cli._console import echo
from skillopt.cli._options import Json, Plain, Quiet

PANEL, PLACE = "Train and measure", 0
WHAT_IT_IS = (
    "This demo is simulated: the target and the optimizer are small programs that follow rules, so it needs"
    " no key, no network and no money. The training loop, the gate, the sealed test and the files are the"
    " real ones."
)


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("demo", rich_help_panel=PANEL, epilog=EXIT_CODES)(demo)


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--out_root", metavar="DIR", help="Run folder; default outputs/demo.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Train a skill in a simulated world: no key, no network, a few seconds."""
    from skillopt.build import prepare
    from skillopt.cli import _report, _run

    if not quiet:
        echo(WHAT_IT_IS, err=json)
    folder = Path.cwd() / (out or _free_folder(quiet=quiet))
    job = prepare(_run.configure("quickstart", {}, None))
    result = _run.train(job, folder, _run.choose_view(job, quiet=quiet, plain=plain))
    if json:
        _report.print_json(_report.as_json(result))
        return
    if not quiet:
        _show_change(job.skill.rendered, result.best_skill)
    _report.show(result, subject=_run.subject(job), quiet=quiet)
    if not quiet:
        echo(f"Look closer:  skillopt explain {_short(folder)} 1    Your own tasks:  skillopt train --help")


def _free_folder(*, quiet: bool) -> Path:
    """The demo's folder, or the first numbered one beside it that holds no finished run; an unfinished one is
    gone on with.
    """
    from skillopt.runs.reader import is_finished

    folder, number = Path("outputs/demo"), 1
    while is_finished(folder):
        taken, number = folder, number + 1
        folder = Path(f"outputs/demo-{number}")
        if not quiet:
            echo(
                f"{taken} already holds a finished run and is left alone; this one goes to {folder}.",
                err=True,
            )
    return folder


def _show_change(seed: str, best: str) -> None:
    from rich import print as print_rich

    from skillopt.skill.diff import print_coloured, unified

    print_rich("\n[bold]What training changed, seed skill to best skill:[/]\n")
    print_coloured(unified(seed, best, "seed", "best_skill.md"))


def _short(folder: Path) -> str:
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)
