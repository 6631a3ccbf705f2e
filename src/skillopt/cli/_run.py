"""What `train`, `eval` and `demo` share: configuring, choosing a view, stopping on a signal, keeping secrets
out of errors, and what is said at the end: one table, one claim, one path.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from skillopt import run
from skillopt.cli._console import coloured, echo, open_console, os_trouble
from skillopt.cli._flags import Given
from skillopt.cli._progress import LiveView, PlainLines, View
from skillopt.config.load import Resolved
from skillopt.config.record import foreign_acts, refuse_foreign
from skillopt.errors import Interrupted, MachineFailed, SkillOptError, Stopped, UsageError
from skillopt.events import Notice, Spending
from skillopt.process.waiting import run_gently, signals_heard
from skillopt.redact import Scrubber
from skillopt.run import Job, Result, open_run
from skillopt.runs import words
from skillopt.runs.reader import read_run, read_view
from skillopt.runs.status import RunStatus

T = TypeVar("T")


def configure(given: Given) -> Resolved:
    """The configuration of a command; what its reader should know goes to stderr."""
    resolved = given.load()
    for warning in resolved.warnings:
        echo(f"warning: {warning}", err=True)
    return agreed(resolved, force=given.force)


def agreed(resolved: Resolved, *, force: bool) -> Resolved:
    """The configuration with the person's consent to what a run of somebody else would start. Raises
    `UsageError` where the answer is no, or where nobody is at a terminal.
    """
    if not force and (acts := foreign_acts(resolved)):
        if not sys.stdin.isatty():
            refuse_foreign(resolved)
        echo(acts, err=True)
        if not typer.confirm("Start it all the same?", err=True):
            raise UsageError("Nothing was started or sent.")
    return replace(resolved, stranger=None)


def choose_view(job: Job, *, quiet: bool, plain: bool, target: str | None = None) -> View:
    """Live on a terminal, plain lines elsewhere; on stderr. `target` names several as one."""
    console = open_console(stderr=True)
    if quiet:
        return View(console)
    subject = f"{job.benchmark.name} · target {target or job.target_name}"
    status = RunStatus(epochs=job.config.train.num_epochs, subject=subject, simulated=job.simulated)
    return PlainLines(status, console) if plain or not console.is_terminal else LiveView(status, console)


def train(job: Job, folder: Path, view: View, said: str = "") -> Result:
    """Train to the end, the budget or a signal; the view is closed whatever happens. `said` is told once the
    folder is open, before anything is paid.
    """

    async def session() -> Result:
        async with open_run(job, folder, sinks=[view]) as opened:
            view.follow(opened)
            if said:
                view(Notice(text=said))
            paid = opened.spending()
            view(Spending(calls=paid["calls"], tokens=paid["tokens"], usd=paid["usd"], in_flight=0))
            with on_signal(opened.stop, view, folder):
                return await run.train(opened)

    with scrubbed(job.scrubber):
        return watched(session(), view)


def as_json(result: Result) -> dict[str, Any]:
    """The summary, with the folder and the file to use."""
    from skillopt.runs.best import flagged_lines

    best = result.folder / "best_skill.md"
    flagged = list(map(asdict, flagged_lines(read_run(result.folder))))
    return {
        **result.summary,
        "folder": str(result.folder),
        "best_skill_path": str(best),
        "flagged": flagged,
    }


def show(job: Job, result: Result, *, quiet: bool) -> None:
    """Print how training ended; quiet is the claim, what limits it, and the file."""
    from skillopt.runs.best import flagged_lines  # what only the end needs is not loaded at the start
    from skillopt.runs.comparison import score_table

    view = read_view(result.folder)
    console = open_console()
    if not quiet:
        is_whole = result.status == "finished"
        ended = "Training finished" if is_whole else "The budget ended training before its plan"
        subject = f"{job.benchmark.name}, target {job.target_name}"
        heading = Text(f"\n{ended}: {subject}", style="bold")
        if view.started.simulated:
            heading.append("  simulated ", style="black on yellow")
        console.print(heading)
        heads, *rows = score_table(view)
        scores = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD)
        for head in heads:
            scores.add_column(head, no_wrap=True)
        for row in rows:
            scores.add_row(*row, style=coloured(view.significance) if view.significance in row[-1] else "")
        console.print(scores)
        if "(hard" in str(heads):
            console.say("(hard: the share of answers that pass)", "dim")
        if view.test.folds:
            console.say("(val: the tasks of the last round alone; the folds are the claim)", "dim")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        decided = f"{len(view.steps)}: {words.outcomes(change.action for change in view.steps)}"
        if earlier := job.division.earlier:
            decided = decided if view.steps else "none in the last round"
            decided += f", after {words.count(len(earlier), 'round')} in {result.folder.name}/rounds"
        spent = words.spent(view.spent.calls, view.spent.tokens, view.spent.dollars)
        took = words.duration(result.summary["total_wall_time_s"])
        for line in (("", ""), ("steps", decided), ("spent", spent), ("time", took), ("", "")):
            grid.add_row(*line)
        console.print(grid)
    console.say(result.claim, f"bold {coloured(view.significance)}")
    for remark in view.remarks:
        if remark not in result.claim:
            console.say(remark, "yellow")
    for one in flagged_lines(read_run(result.folder)):
        console.say(str(one), "red")
    best = "best_skill" if result.best_files else "best_skill.md"
    console.say(f"Best skill: {result.folder / best}")
    if not quiet:
        folder = shlex.quote(os.path.relpath(result.folder))
        take = f"adopt {folder}" if job.seed.path is not None else f"adopt {folder} --to claude-code"
        is_new = result.state.best != result.state.seed
        commands = (
            take if is_new else f"runs show {folder} --failed",
            f"report {folder}",
            f"dashboard --root {folder}",
        )
        console.say(f"Next: {', '.join(f'skillopt {one}' for one in commands)}")


def watched(session: Coroutine[Any, Any, T], view: View) -> T:
    """Run a session's event loop, and leave the terminal as it was."""
    try:
        return run_gently(session)
    finally:
        view.close()


def measured(evaluation: Coroutine[Any, Any, T], folder: Path, view: View) -> T:
    """Run an evaluation under the view; a signal stops it between decisions."""

    async def session() -> T:
        work = asyncio.ensure_future(evaluation)
        reasons: list[Stopped] = []

        def stop(reason: Stopped) -> None:
            reasons.append(reason)
            work.cancel()

        view.start()
        with on_signal(stop, view, folder):
            try:
                return await work
            except asyncio.CancelledError:
                raise (reasons[0] if reasons else Interrupted("Interrupted.")) from None

    return watched(session(), view)


@contextlib.contextmanager
def on_signal(stop: Callable[[Stopped], None], view: View, folder: Path) -> Iterator[None]:
    """Ctrl-C, SIGTERM or a lost terminal stops between decisions, a second one at once. Needs the event loop.

    What that loses is what `kill -9` would lose: nothing that was paid and had arrived. Under `nohup` a lost
    terminal stops nothing.
    """
    hangup = getattr(signal, "SIGHUP", None)  # absent on Windows
    signals = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signals.append(hangup)
    heard = 0

    def first_or_second(number: int) -> None:
        nonlocal heard
        if heard and number == hangup:
            return
        heard += 1
        if heard > 1:
            view.close()
            sys.stderr.flush()
            os._exit(Interrupted.exit_code)
        view.say(
            "Stopping: nothing further is sent, calls already sent are waited for. Once more ends at once."
        )
        stop(
            Interrupted(
                f"Interrupted between decisions; everything paid is kept in {folder}.\nTo go on, run the same"
                f" command:\n  {command()}"
            )
        )

    with signals_heard(signals, first_or_second):
        yield


@contextlib.contextmanager
def scrubbed(scrubber: Scrubber) -> Iterator[None]:
    """Errors leave without credentials; an unexpected one keeps its traceback and ends with code 1."""
    try:
        yield
    except SkillOptError as error:
        clean = scrubber.scrub(str(error))
        if clean != str(error):
            error.args = (clean,)
        raise
    except (OSError, sqlite3.Error) as error:
        what = os_trouble(error) if isinstance(error, OSError) else f"the run's database: {error}"
        remedy = "What was paid is kept. Remove the cause and run the same command again."
        raise MachineFailed(scrubber.scrub(f"{what}. {remedy}")) from None
    except Exception:  # noqa: BLE001 - whatever it is, its text may hold a credential
        echo(scrubber.scrub(traceback.format_exc()), err=True)
        raise typer.Exit(1) from None


def command() -> str:
    """The command line as the person wrote it."""
    program = Path(sys.argv[0])
    if door := re.search(r"/(skillopt(?:/run)?)(?:/__main__|(?<=/run))\.py$", program.as_posix()):
        name = f"python -m {door[1].replace('/', '.')}"
    else:  # a script is started by its path, an installed program by its name
        name = f"python {shlex.quote(sys.argv[0])}" if program.suffix == ".py" else shlex.quote(program.name)
    return " ".join([name, *map(shlex.quote, sys.argv[1:])])
