"""Opens a run folder and puts the model stack together: what measuring needs, for training and for `eval`
alike.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from skillopt.agents import agents
from skillopt.build.job import Job
from skillopt.build.money import budget_of, known_price
from skillopt.config import RoleSpec
from skillopt.errors import ConfigError, Stopped
from skillopt.evaluate.judge import ModelJudge
from skillopt.evaluate.runner import Evaluator, Rollouts
from skillopt.events import Called, Checkpoint, Event, Sink, Spending
from skillopt.executors import ProcessPool
from skillopt.files import write_json
from skillopt.harnesses import harnesses
from skillopt.harnesses._rollout_budget import Allowance, Purse
from skillopt.harnesses.port import Harness, Setup, Unasked
from skillopt.ledger import Budget, Entry, Ledger
from skillopt.messages import Role
from skillopt.models import PROVIDERS
from skillopt.models.handoff.rounds import Attended, ByHand, Handed, Rounds
from skillopt.models.port import UNBOUNDED, Model, ModelSpec, Paced, Provider
from skillopt.models.prices import Price
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.limited import Limited, Limiter, Retry
from skillopt.models.stack.recorded import Recorded
from skillopt.models.stack.scrubbed import Scrubbed
from skillopt.models.wires.structured import AskedAgain
from skillopt.runs.cache import SharedRollouts
from skillopt.runs.log import Run
from skillopt.skill.folder import Skill
from skillopt.tasks.benchmark import UsesExecutor

DRAIN_SECONDS = 10.0
"""Beyond the longest time a call may take."""


class Lab:
    """One open folder with a ledger, a target and its evaluator. Use as an async context manager."""

    def __init__(
        self,
        job: Job,
        folder: Path,
        identity: Mapping[str, Any],
        *,
        sinks: Sequence[Sink] = (),
        retry: Retry | None = None,
        one_stops_all: bool = True,
    ) -> None:
        """`one_stops_all`: a dead login at one endpoint ends the work at the others too, as a training run
        needs all its models.
        """
        self.job = job
        self.folder = folder
        self._one_stops_all = one_stops_all
        self._stack = AsyncExitStack()
        self._retry = retry
        self._limiters: dict[str, Limiter] = {}
        self._recorded: list[Recorded] = []
        self._evaluators: list[Evaluator] = []
        self._rounds = Rounds()
        self._opened = time.monotonic()
        self._tells_calls = False
        config = job.config
        budget = budget_of(config)
        self.target_price = self._price("target", job.target, budget)
        self.optimizer_price = self._price("optimizer", job.optimizer, budget)
        self._folder_stack = ExitStack()
        try:
            self._open(identity, budget, sinks)
        except BaseException:
            self._folder_stack.close()  # the lock, above all
            raise
        self._stack.callback(self._folder_stack.close)

    def _open(self, identity: Mapping[str, Any], budget: Budget, sinks: Sequence[Sink]) -> None:
        job, folder = self.job, self.folder
        self.run = self._folder_stack.enter_context(Run(folder, identity, scrubber=job.scrubber, sinks=sinks))
        self._earlier = float(self.run.database.noted("seconds") or 0.0)
        self.run.watch(self._keep_time, facts_only=True)
        write_json(folder / "config.json", job.scrubber.scrub_json(job.settings))
        self.run.database.begin_session()
        self.ledger = Ledger(budget, self.run.database, on_settled=self._spent, elapsed=lambda: self.seconds)
        self._kept = self._rollouts()
        if isinstance(job.benchmark, UsesExecutor):
            pool = ProcessPool(min(os.cpu_count() or 1, job.config.env.workers))
            self._stack.push_async_callback(pool.close)
            job.benchmark.executor = pool
        self._judge = self._judge_of(job.judge, budget)
        self.evaluator = self._evaluator(job.target, self.target_price)

    async def __aenter__(self) -> Lab:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    @property
    def seconds(self) -> float:
        """Wall time of this run over all its sessions."""
        return self._earlier + time.monotonic() - self._opened

    def model(self, role: Role, spec: RoleSpec, price: Price | None) -> Attended:
        """A provider behind the stack every call passes: recorded, limited, budgeted, scrubbed."""
        build: Provider = PROVIDERS.get(spec.model.provider)
        provider = build(_at_home(spec.model, self.folder))
        self._stack.push_async_callback(provider.close)
        config = self.job.config
        most = provider.concurrency if isinstance(provider, Paced) else None
        workers, analysts = most or config.env.workers, most or config.gradient.analyst_workers
        ceilings: dict[Role, int] = {"target": workers, "optimizer": analysts, "judge": workers}
        on_close = self.ledger.stop if self._one_stops_all else _nobody_else
        limiter = self._limiters.setdefault(
            provider.endpoint, Limiter(ceilings, self._retry, on_close=on_close)
        )
        paid = Budgeted(Scrubbed(provider, self.job.scrubber), self.ledger, price)
        stack: Model = Limited(AskedAgain(paid, provider), limiter)
        if isinstance(
            provider, ByHand
        ):  # scrubbed again, as its questions become files before they come to the provider
            stack = Scrubbed(Handed(stack, provider.desk, self._rounds), self.job.scrubber)
        recorded = Recorded(stack, self.run.database)
        self._recorded.append(recorded)
        self._rounds.watch(lambda: recorded.in_flight)
        return Attended(recorded, self._rounds, most)

    @property
    def allowance(self) -> Allowance:
        """What one rollout may use, where an agent makes the calls itself."""
        allowed = self.job.config.budget.per_rollout
        return Allowance(
            tokens=allowed.tokens, usd=None if allowed.usd is None else Fraction(str(allowed.usd))
        )

    def further_target(self, spec: RoleSpec, carrier: Skill | None = None) -> Evaluator:
        """An evaluator of another target beside the job's own: the same folder, ledger, rollouts and number
        of workers for all.

        `carrier` is the skill whose other files a target installs along with the text; unset is the one that
        training starts from.
        """
        evaluator = self._evaluator(spec, self._price("target", spec, self.ledger.budget), carrier)
        if (
            evaluator.workers == self.evaluator.workers
        ):  # one that is asked by hand has no limit, and takes no slot from the others
            evaluator.slots = self.evaluator.slots
        return evaluator

    def stop(self, reason: Stopped) -> None:
        """Send nothing further; the run ends between decisions and can be taken up again."""
        self.evaluator.slots.close(reason)
        for limiter in self._limiters.values():
            limiter.close(reason)

    def slowed(self) -> str:
        """In words: what providers made us slow down, by endpoint; empty when nothing is held back."""
        told = {endpoint: limiter.slowed() for endpoint, limiter in self._limiters.items()}
        return "; ".join(
            f"{endpoint}: {text}" if len(told) > 1 else text for endpoint, text in told.items() if text
        )

    async def drain(self) -> None:
        """Wait for calls already sent, so that what is paid is kept."""
        roles = (self.job.target, self.job.optimizer, self.job.judge)
        longest = max(role.model.timeout for role in roles if role is not None)
        sent = [
            *(recorded.drain() for recorded in self._recorded),
            *(evaluator.drain() for evaluator in self._evaluators),
        ]
        await asyncio.wait([asyncio.ensure_future(one) for one in sent], timeout=longest + DRAIN_SECONDS)

    def spending(self) -> dict[str, Any]:
        """What was really paid, over all sessions: by stage, in total, and where a reservation had to be
        kept.
        """
        stages: dict[str, dict[str, int]] = {}
        states: dict[str, int] = {}
        for entry in self.run.database.entries():
            states[entry.state] = states.get(entry.state, 0) + 1
            for name in (entry.stage, "_total"):
                row = stages.setdefault(
                    name, {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
                )
                row["calls"] += entry.charged.calls
                row["total_tokens"] += entry.charged.tokens
                if entry.usage is not None:
                    row["prompt_tokens"] += entry.usage.input_tokens
                    row["completion_tokens"] += entry.usage.output_tokens
        spent = self.ledger.spent
        return {
            "calls": spent.calls,
            "tokens": spent.tokens,
            "usd": None if spent.usd is None else float(spent.usd),
            "attempts": states,
            "stages": stages,
            "more_than_reserved": list(self.ledger.overruns),
        }

    def _evaluator(self, spec: RoleSpec, price: Price | None, carrier: Skill | None = None) -> Evaluator:
        job = self.job
        purse = Purse(self.ledger, price, self.allowance)
        setup = Setup(
            model=spec.model,
            agent=spec.agent,
            skill=carrier or job.seed,
            purse=purse,
            scrub=job.scrubber.scrub,
        )
        harness: Harness = harnesses.get(spec.harness)(setup)
        model = self.model("target", spec, price) if harness.asks_model else Unasked(spec.model)
        evaluator = Evaluator(
            harness=harness,
            model=model,
            benchmark=job.benchmark,
            rollouts=self._kept,
            workers=UNBOUNDED if model.concurrency == UNBOUNDED else job.config.env.workers,
            max_tokens=spec.max_tokens,
            emit=self.run.emit,
            scrub=job.scrubber.scrub,
            working=self._rounds.working,
            judge=self._judge,
        )
        self._evaluators.append(evaluator)
        return evaluator

    def _judge_of(self, spec: RoleSpec | None, budget: Budget) -> ModelJudge | None:
        """The judge, one for all targets: its calls pass the same stack as all others."""
        if spec is None:
            return None
        return ModelJudge(
            self.model("judge", spec, self._price("judge", spec, budget)), max_tokens=spec.max_tokens
        )

    def _rollouts(self) -> Rollouts:
        path = self.job.config.cache.path
        if path is None:
            return self.run.database
        shared = SharedRollouts(self.run.database, path)
        self._folder_stack.callback(shared.shut)
        return shared

    def _price(self, role: str, spec: RoleSpec, budget: Budget) -> Price | None:
        price = known_price(spec)
        in_agent = role == "target" and spec.harness in agents.names()
        if (
            price is None
            and budget.usd is not None
            and not (in_agent and self.job.config.budget.per_rollout.usd is not None)
        ):
            hint = "set budget.per_rollout.usd, " if in_agent else ""
            raise ConfigError(
                f"A budget in dollars needs a price for the {role} {spec.model.name!r}, and none is known."
                f" Declare model.{role}.price (input and output, dollars per million tokens), {hint}or give"
                " the budget in tokens or calls."
            )
        return price

    def _spent(self, entry: Entry) -> None:
        spent = self.ledger.settled
        usd = None if spent.usd is None else float(spent.usd)
        self.run.emit(
            Spending(calls=spent.calls, tokens=spent.tokens, usd=usd, in_flight=self.ledger.in_flight)
        )
        if self._tells_calls and entry.opened is not None:
            self.run.emit(self._called(entry, self.seconds - entry.opened))

    def _called(self, entry: Entry, seconds: float) -> Called:
        specs = {
            "target": self.job.target,
            "optimizer": self.job.optimizer,
            "judge": self.job.judge or self.job.optimizer,
        }
        model, usage = specs[entry.role].model, entry.usage
        return Called(
            role=entry.role,
            stage=entry.stage,
            place=entry.place,
            provider=model.provider,
            model=model.name,
            outcome=entry.state,
            seconds=seconds,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cached_tokens=None if usage is None else usage.cached_tokens,
            reasoning_tokens=None if usage is None else usage.reasoning_tokens,
            usd=None if entry.charged.usd is None else float(entry.charged.usd),
        )

    def _keep_time(self, event: Event) -> None:
        if isinstance(event, Checkpoint):
            self.run.database.note("seconds", str(self.seconds))


def _at_home(spec: ModelSpec, folder: Path) -> ModelSpec:
    """Questions by hand lie in the run's own folder unless another is named."""
    if spec.provider != "handoff" or spec.options.get("folder") is not None:
        return spec
    return replace(spec, options={**spec.options, "folder": str(folder / "handoff")})


def _nobody_else(reason: Stopped) -> None:
    """An endpoint that closed for itself."""
