"""What `train`, `eval` and `demo` share: configuring, choosing a view, stopping on a signal, keeping secrets
out of errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from skillopt.aio import run_gently
from skillopt.errors import BudgetSpent, Interrupted, SkillOptError, Stopped
from skillopt.redact import Scrubber

if TYPE_CHECKING:
    from skillopt.api import Result
    from skillopt.build import Job
    from skillopt.cli._progress import View
    from skillopt.config import Resolved
    from skillopt.events.records import StepRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A finished training run as the closing report needs it."""

    result: Result
    steps: Sequence[StepRecord]
    """The public step records."""
    subject: str


def configure(config: str | None, flags: Mapping[str, str], options: Sequence[str] | None) -> Resolved:
    """The configuration of a command; what its reader should know goes to stderr."""
    from skillopt.config import load

    resolved = load(config, flags=flags, options=list(options or ()), environ=os.environ, cwd=Path.cwd())
    for warning in resolved.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return resolved


def choose_view(job: Job, *, quiet: bool, plain: bool, target: str | None = None) -> View:
    """Live on a terminal, plain lines elsewhere; always on stderr, so that stdout is the result. `target`
    names several as one.
    """
    from rich.console import Console

    from skillopt.cli._progress import LiveView, PlainLines, Silent
    from skillopt.runs.status import Status

    console = Console(stderr=True, highlight=False)
    if quiet:
        return Silent(console)
    subject = f"{job.benchmark.name} · target {target or job.config.model.target.name}"
    status = Status(epochs=job.config.train.num_epochs, subject=subject, simulated=job.simulated)
    return PlainLines(status, console) if plain or not console.is_terminal else LiveView(status, console)


def train(job: Job, folder: Path, view: View) -> Trained:
    """Train to the end, the budget or a signal; the view is closed whatever happens."""

    async def session() -> Trained:
        from skillopt import api
        from skillopt.build import Engine
        from skillopt.events import Spending

        async with Engine(job, folder, sinks=[view]) as engine:
            view.start(list(engine.run.history()), lambda: engine.ledger.in_flight, engine.slowed)
            paid = engine.spending()
            view(Spending(calls=paid["calls"], tokens=paid["tokens"], usd=paid["usd"], in_flight=0))
            with on_signal(engine.stop, view, folder):
                result = await api.train(engine)
            return Trained(
                result=result,
                steps=engine.run.steps(),
                subject=f"{job.benchmark.name}, target {job.config.model.target.name}",
            )

    with scrubbed(job.scrubber):
        return watched(session(), view)


def watched(session: Coroutine[Any, Any, T], view: View) -> T:
    """Run a session's event loop, and leave the terminal as it was."""
    try:
        return run_gently(session)
    finally:
        view.close()


@contextlib.contextmanager
def on_signal(stop: Callable[[Stopped], None], view: View, folder: Path) -> Iterator[None]:
    """Ctrl-C or SIGTERM stops between decisions; a second one ends the process at once. Needs the running
    event loop.

    What that loses is what a `kill -9` would lose: nothing that was paid and had arrived.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    loop = asyncio.get_running_loop()
    heard = 0

    def first_or_second() -> None:
        nonlocal heard
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
        loop.call_soon_threadsafe(first_or_second)

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
    except Exception:  # noqa: BLE001 - whatever it is, its text may hold a credential
        typer.echo(scrubber.scrub(traceback.format_exc()), err=True)
        raise typer.Exit(1) from None


def command() -> str:
    """The command line as the person wrote it."""
    program = Path(sys.argv[0])
    modules = {"__main__.py": "python -m skillopt", "run.py": "python -m skillopt.run"}
    if program.parent.name == "skillopt" and program.name in modules:
        name = modules[program.name]
    else:  # a script is started by its path, an installed program by its name
        name = f"python {shlex.quote(sys.argv[0])}" if program.suffix == ".py" else shlex.quote(program.name)
    return " ".join([name, *map(shlex.quote, sys.argv[1:])])


def leave(trained: Trained) -> None:
    """End the command with the code of its outcome."""
    if trained.result.status == "budget":
        raise typer.Exit(BudgetSpent.exit_code)
