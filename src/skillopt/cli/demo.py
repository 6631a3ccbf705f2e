"""`skillopt demo`: train a skill in a simulated world: no key, no network, a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import print as print_rich

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import echo, print_json
from skillopt.cli._flags import Given
from skillopt.cli._options import Json, Plain, Quiet, simple
from skillopt.run import prepare
from skillopt.runs.reader import is_finished
from skillopt.skill.diff import print_coloured, unified

PANEL, PLACE = "Train and measure", 0
WHAT_IT_IS = (
    "This demo is simulated: the target and the optimizer are small programs that follow rules, so it needs"
    " no key, no network and no money. The training loop, the gate, the sealed test and the files are the"
    " real ones."
)


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
    if not quiet:
        echo(WHAT_IT_IS, err=json)
    folder = Path.cwd() / (out or _free_folder(quiet=quiet))
    job = prepare(_run.configure(Given(config="quickstart", flags={}, options=())))
    result = _run.train(job, folder, _run.choose_view(job, quiet=quiet, plain=plain))
    if json:
        print_json(_run.as_json(result))
        return
    if not quiet:
        print_rich("\n[bold]What training changed, seed skill to best skill:[/]\n")
        print_coloured(unified(job.skill.rendered_text, result.best_skill, "seed", "best_skill.md"))
    _run.show(job, result, quiet=quiet)
    if not quiet:
        short = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
        echo(f"Look closer:  skillopt runs explain {short} 1    Your own tasks:  skillopt init NAME")


add = simple(demo, epilog=EXIT_CODES)


def _free_folder(*, quiet: bool) -> Path:
    """The demo's folder, or the first numbered one beside it that holds no finished run."""
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
