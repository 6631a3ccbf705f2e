"""What `train`, `eval` and `demo` share: configuring, choosing a view, stopping on a signal, keeping secrets
out of errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from skillopt.aio import run_gently
from skillopt.cli._console import echo, open_console, os_trouble
from skillopt.errors import BudgetSpent, Interrupted, MachineFailed, SkillOptError, Stopped
from skillopt.redact import Scrubber

if TYPE_CHECKING:
    from skillopt.api import Result
    from skillopt.build import Job
    from skillopt.cli._progress import View
    from skillopt.config import Resolved

T = TypeVar("T")


def configure(config: str | None, flags: Mapping[str, str], options: Sequence[str] | None) -> Resolved:
    """The configuration of a command; what its reader should know goes to stderr."""
    from skillopt.config import load

    resolved = load(config, flags=flags, options=list(options or ()), environ=os.environ, cwd=Path.cwd())
    for warning in resolved.warnings:
        echo(f"warning: {warning}", err=True)
    return resolved


def choose_view(job: Job, *, quiet: bool, plain: bool, target: str | None = None) -> View:
    """Live on a terminal, plain lines elsewhere; always on stderr, so that stdout is the result. `target`
    names several as one.
    """

    from skillopt.cli._progress import LiveView, PlainLines, Silent
    from skillopt.runs.status import RunStatus

    console = open_console(stderr=True)
    if quiet:
        return Silent(console)
    subject = f"{job.benchmark.name} · target {target or job.config.model.target.name}"
    status = RunStatus(epochs=job.config.train.num_epochs, subject=subject, simulated=job.simulated)
    return PlainLines(status, console) if plain or not console.is_terminal else LiveView(status, console)


def train(job: Job, folder: Path, view: View) -> Result:
    """Train to the end, the budget or a signal; the view is closed whatever happens."""

    async def session() -> Result:
        from skillopt import api
        from skillopt.build import open_run
        from skillopt.events import Spending

        async with open_run(job, folder, sinks=[view]) as opened:
            view.start(list(opened.run.history()), lambda: opened.ledger.in_flight, opened.models.slowed)
            paid = opened.spending()
            view(Spending(calls=paid["calls"], tokens=paid["tokens"], usd=paid["usd"], in_flight=0))
            with on_signal(opened.stop, view, folder):
                return await api.train(opened)

    with scrubbed(job.scrubber):
        return watched(session(), view)


def subject(job: Job) -> str:
    """What the job trains, in a few words."""
    return f"{job.benchmark.name}, target {job.config.model.target.name}"


def watched(session: Coroutine[Any, Any, T], view: View) -> T:
    """Run a session's event loop, and leave the terminal as it was."""
    try:
        return run_gently(session)
    finally:
        view.close()


@contextlib.contextmanager
def on_signal(stop: Callable[[Stopped], None], view: View, folder: Path) -> Iterator[None]:
    """Ctrl-C, SIGTERM or a lost terminal stops between decisions; a second Ctrl-C or SIGTERM ends the process
    at once. Needs the running event loop.

    What that loses is what a `kill -9` would lose: nothing that was paid and had arrived. Under `nohup`
    a lost terminal stops nothing.
    """
    hangup = getattr(signal, "SIGHUP", None)  # absent on Windows
    signals = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signals.append(hangup)
    loop = asyncio.get_running_loop()
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

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(first_or_second, number)

    # signal.signal and not loop.add_signal_handler: the latter does not exist on Windows.
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextlib.contextmanager
def scrubbed(scrubber: Scrubber) -> Iterator[None]:
    """Errors leave without the credentials that were loaded; an unexpected one keeps its traceback and ends
    with code 1.
    """
    try:
        yield
    except SkillOptError as error:
        clean = scrubber.scrub(str(error))
        if clean != str(error):
            error.args = (clean,)
        raise
    except (OSError, sqlite3.Error) as error:
        raise MachineFailed(scrubber.scrub(machine_trouble(error))) from None
    except Exception:  # noqa: BLE001 - whatever it is, its text may hold a credential
        echo(scrubber.scrub(traceback.format_exc()), err=True)
        raise typer.Exit(1) from None


def machine_trouble(error: OSError | sqlite3.Error) -> str:
    """What this machine refused, and how to go on."""
    what = os_trouble(error) if isinstance(error, OSError) else f"the run's database: {error}"
    return f"{what}. What was paid is kept. Remove the cause and run the same command again."


def command() -> str:
    """The command line as the person wrote it."""
    program = Path(sys.argv[0])
    modules = {"__main__.py": "python -m skillopt", "run.py": "python -m skillopt.run"}
    if program.parent.name == "skillopt" and program.name in modules:
        name = modules[program.name]
    else:  # a script is started by its path, an installed program by its name
        name = f"python {shlex.quote(sys.argv[0])}" if program.suffix == ".py" else shlex.quote(program.name)
    return " ".join([name, *map(shlex.quote, sys.argv[1:])])


def leave(result: Result) -> None:
    """End the command with the code of its outcome."""
    if result.status == "budget":
        raise typer.Exit(BudgetSpent.exit_code)
