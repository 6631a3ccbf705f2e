"""Opens a run folder and assembles what measuring needs: for training, for `eval` and for nights alike."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.errors import Stopped
from skillopt.evaluation.runner import Evaluator, Rollouts
from skillopt.events import Checkpoint, Event, Notice, Sink, Spending
from skillopt.executors import Executor, executors
from skillopt.files import caches_folder, write_json
from skillopt.models.stack.limited import Retry
from skillopt.money import Budget, Entry, Ledger
from skillopt.run.addresses import asked_by, note_addresses
from skillopt.run.job import Job
from skillopt.run.models import ModelStack, Targets, budget_of, price_for
from skillopt.run.projection import Projection
from skillopt.runs.answers import SHARED
from skillopt.runs.cache import SharedRollouts
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE, EVENTS, Run
from skillopt.runs.notes import SETTINGS, is_made_here, note_origin
from skillopt.tasks.benchmark import as_benchmark

DRAIN_SECONDS = 10.0
"""Beyond the longest time a call may take."""
MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """One open run folder with its ledger, its models and its evaluators."""

    job: Job
    folder: Path
    run: Run
    ledger: Ledger
    models: ModelStack
    targets: Targets
    elapsed: Callable[[], float]
    """Seconds of wall time over all its sessions."""
    rollouts_path: Path | None
    """The file that the runs inside this one share scored rollouts through."""
    projection: Projection
    """How many calls it will have made at its end."""
    parts: list[OpenRun] = field(default_factory=list)
    """The runs inside this one that are open."""
    stopped: list[Stopped] = field(default_factory=list)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the job's own target."""
        return self.targets.own

    def stop(self, reason: Stopped) -> None:
        """Send nothing further; the run ends between decisions and can be taken up again."""
        self.stopped.append(reason)
        for part in self.parts:
            part.stop(reason)
        self.evaluator.slots.close(reason)
        self.models.stop(reason)

    async def drain(self) -> None:
        """Wait for calls already sent, so that what is paid is kept."""
        longest = max(spec.timeout for _, spec in asked_by(self.job))
        sent = [asyncio.ensure_future(one.drain()) for one in (self.models, self.targets)]
        await asyncio.wait(sent, timeout=longest + DRAIN_SECONDS)

    def spending(self) -> dict[str, Any]:
        """What was really paid, over all sessions: by stage, in total, and where a reservation was kept."""
        return {**self.ledger.account.as_json(), "more_than_reserved": list(self.ledger.overruns)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRun:
    """Where a run inside another one belongs: it pays from the other's ledger, at most `budget`."""

    whole: OpenRun
    name: str
    budget: Budget


@asynccontextmanager
async def open_run(
    job: Job,
    folder: Path,
    identity: Mapping[str, Any] | None = None,
    *,
    sinks: Sequence[Sink] = (),
    retry: Retry | None = None,
    one_stops_all: bool = True,
    parent: ParentRun | None = None,
) -> AsyncIterator[OpenRun]:
    """Open the folder, or go on in it, and hold it until the context ends.

    `identity` is what the folder belongs to; unset, a training run of the job. `one_stops_all`: a dead login
    at one endpoint ends the work at the others too, as a training run needs all its models. `parent` is for
    a run that is part of another.
    """
    _check_prices(job)  # refused before the folder is touched
    async with AsyncExitStack() as stack:
        whose = job.identity() if identity is None else identity
        is_ours = parent is None and (not (folder / EVENTS).exists() or is_made_here(folder))
        run = stack.enter_context(Run(folder, whose, scrubber=job.scrubber, sinks=sinks))
        database = run.database
        earlier, opened_at = (database.noted_as(float, "seconds") or 0.0), time.monotonic()

        def elapsed() -> float:
            return earlier + time.monotonic() - opened_at

        def note_progress(event: Event) -> None:
            if isinstance(event, Checkpoint):
                database.note("seconds", str(elapsed()))
                (projection if parent is None else parent.whole.projection).take(event.state)

        def tell_spending(entry: Entry) -> None:
            paid = ledger.account.settled()
            run.emit(
                Spending(
                    calls=paid.calls,
                    tokens=paid.tokens,
                    usd=paid.dollars,
                    in_flight=ledger.in_flight,
                    tokens_reserved=ledger.account.tokens_reserved,
                    planned=projection.calls,
                )
            )

        write_json(folder / SETTINGS, job.scrubber.scrub_json(job.settings))
        if is_ours:
            note_origin(folder)
        database.begin_session()
        note_addresses(database, asked_by(job))
        if parent is None:
            ledger = Ledger(budget_of(job.config), database, elapsed=elapsed)
        else:
            whole = parent.whole
            ledger = Ledger(parent.budget, whole.ledger.part(parent.name), elapsed=whole.elapsed)
        projection = Projection(job, lambda stage, role: ledger.account.total(stage, role).calls, database)
        run.watch(note_progress, facts_only=True)
        ledger.watch(tell_spending)
        path = job.config.cache.path or (folder / SHARED if job.division.folds else None)
        if parent is not None:
            path = parent.whole.rollouts_path
        is_own = path is None and identity is None
        path = own_cache(job) if is_own else path
        rollouts = _rollouts(job, database, path, stack, is_own=is_own)
        executor = _executor(job)
        if executor is not None:
            stack.push_async_callback(executor.close)
        if executor is not None:
            job = replace(job, benchmark=as_benchmark(job.benchmark.programs_in(executor)))
        if parent is None and job.benchmark.own_scorer and not database.holds_answers():
            from skillopt.evaluation.first_answers import check_scorer

            await check_scorer(job.benchmark, job.splits.all[0])
        models = ModelStack(
            job=job,
            folder=folder,
            ledger=ledger,
            database=database,
            closing=stack,
            retry=retry,
            one_stops_all=one_stops_all,
            remark=lambda text: run.emit(Notice(text=text, level="warning")),
        )
        run.live.slowed = models.slowed
        targets = Targets(job=job, models=models, ledger=ledger, rollouts=rollouts, executor=executor)
        yield OpenRun(
            job=job,
            folder=folder,
            run=run,
            ledger=ledger,
            models=models,
            targets=targets,
            elapsed=elapsed,
            rollouts_path=path,
            projection=projection,
        )


def _rollouts(
    job: Job, database: Database, shared: Path | None, closing: AsyncExitStack, *, is_own: bool
) -> Rollouts:
    """Where a run finds rollouts that need not be paid: its own, and those of runs it goes on from or shares
    a file with. `is_own`: the file is the person's own cache, which is kept small.
    """
    if shared is None and not job.reuses:
        return database
    paid = [other / name for other in job.reuses for name in (DATABASE, SHARED)]
    limit = job.config.cache.limit_mb * MB if is_own and shared is not None else None
    found = SharedRollouts(database, shared, paid, limit=limit)
    database.earlier = found.earlier
    closing.callback(found.shut)
    return found


def _check_prices(job: Job) -> None:
    """Raise where a budget in dollars meets a model without a price."""
    for spec in job.specs:
        price_for(job.config, "target", spec)
    price_for(job.config, "optimizer", job.optimizer)
    if job.proposer is not None:
        price_for(job.config, "proposer", job.proposer)


def _executor(job: Job) -> Executor | None:
    """Where the environment work of a job is done; None where there is none, or this process does it."""
    env = job.config.env
    if env.executor is None and not job.benchmark.uses_executor:
        return None
    made: Executor = executors.get(env.executor or "processes")(env.workers)
    return made


def cache_folder() -> Path:
    """Where the files of the person's own cache lie, one for each service."""
    return caches_folder() / "rollouts"


def own_cache(job: Job) -> Path | None:
    """The file that a training run shares rollouts through by itself; None where it must not or may not.

    Only where a second asking would tell nothing new, and where names mean the same tomorrow: a chat with a
    model that needs a key, at temperature 0. Draws of any other target stay independent from run to run, or
    two runs that agree would prove nothing. What `eval`, `estimate --noise` and `check` measure is always
    measured anew.
    """
    config = job.config
    is_plain = all(
        spec.harness == "chat" and spec.temperature == 0 and spec.api_key is not None for spec in job.specs
    )
    if not (config.cache.shared and config.store.tasks and is_plain) or job.simulated or job.division.folds:
        return None
    asked = sorted({(spec.provider, spec.address or "") for spec in job.specs})
    return cache_folder() / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]}.db"
