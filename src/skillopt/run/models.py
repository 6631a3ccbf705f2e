"""What a run asks and pays: models behind the stack that every call passes, evaluators of targets, prices and
budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillopt.agents import agents
from skillopt.config.schema import Config
from skillopt.config.sections import PriceConfig, RoleName
from skillopt.errors import ConfigError, Stopped
from skillopt.evaluation.runner import Evaluator, Rollouts, SeveralTargets
from skillopt.executors import Executor
from skillopt.harnesses import RolloutBudget, harnesses, works_alone
from skillopt.harnesses.port import Harness, NotAsked, Setup
from skillopt.messages import Role
from skillopt.models import PROVIDERS, price_of
from skillopt.models import provider as declaration
from skillopt.models.handoff.queue import AnsweredByHand, ByHand, HandoffQueue
from skillopt.models.port import UNBOUNDED, Model, ModelSpec
from skillopt.models.stack.budgeted import LEAST_CAP, Budgeted
from skillopt.models.stack.hedged import HedgeAllowance, Hedged
from skillopt.models.stack.limited import Limited, Limiter, Retry, Slots
from skillopt.models.stack.rate_limits import RateLimits
from skillopt.models.stack.recorded import Recorded, request_key
from skillopt.models.stack.scrubbed import Scrubbed
from skillopt.money import Budget, Ledger, Price
from skillopt.run.job import Job
from skillopt.runs.database import Database
from skillopt.skill.folder import Skill
from skillopt.skill.install import carried_digest
from skillopt.tasks.benchmark import Benchmark

if TYPE_CHECKING:
    from skillopt.evaluation.judge import ModelJudge


@dataclass(slots=True, kw_only=True)
class ModelStack:
    """Makes the models of one open run. All of them share its ledger, its records and the limiter of their
    endpoint; `stop` and `drain` reach every one of them.
    """

    job: Job
    folder: Path
    ledger: Ledger
    database: Database
    closing: AsyncExitStack
    retry: Retry | None
    one_stops_all: bool
    """An endpoint whose login is dead also stops the calls to all others."""
    remark: Callable[[str], None]
    """Hears how a provider came to ask otherwise than it was told to."""
    rollout_slots: Slots = field(init=False)
    """Held by rollouts of every target, and by second askings of their calls."""
    questions_by_hand: HandoffQueue = field(default_factory=HandoffQueue)
    _limiters: dict[str, Limiter] = field(default_factory=dict)
    _recorded: list[Recorded] = field(default_factory=list)
    _hedges: list[Hedged] = field(default_factory=list)
    _allowance: HedgeAllowance = field(init=False)

    def __post_init__(self) -> None:
        self.rollout_slots = Slots(self.job.config.env.workers)
        self._allowance = HedgeAllowance(test_calls=2 * len(self.job.splits.test))

    def of(self, role: Role, spec: ModelSpec) -> Recorded:
        """A provider behind the stack that every call passes: recorded, limited, budgeted, scrubbed."""
        at_home = replace(self._at_home(spec), remark=self.remark)
        declared = declaration(spec.provider)
        provider = declared(self._bounded(at_home, spec.max_tokens))
        self.closing.push_async_callback(provider.close)
        config, scrubber = self.job.config, self.job.scrubber
        open_it: Callable[[], object] | None = getattr(provider, "open", None)
        if open_it is not None:  # before anything is reserved
            open_it()
        most: int | None = getattr(provider, "concurrency", None)
        # An evaluator has as many rollouts under way as there are workers, and each asks one thing at a time:
        # the calls of targets need no ceiling of their own.
        ceilings: dict[Role, int] = {
            "optimizer": most or config.gradient.analyst_workers,
            "judge": most or config.env.workers,
        }
        if most is not None:
            ceilings["target"] = most
        on_close = self.ledger.stop if self.one_stops_all else (lambda reason: None)
        limiter = self._limiters.setdefault(
            provider.endpoint, Limiter(ceilings, self.retry, on_close=on_close)
        )
        scrubbed, price = Scrubbed(provider, scrubber), price_for(config, role, spec)
        paid = Budgeted(
            scrubbed,
            self.ledger,
            price,
            has_fixed_cap=declared.fixes_cap(spec),
            may_reason=spec.may_reason,
        )
        limits: RateLimits | None = getattr(provider, "limits", None)
        stack: Model = Limited(paid, limiter, limits)
        if spec.hedges and limits is not None and most is None:
            stack = self._hedged(role, paid, limiter, limits)
        if isinstance(provider, ByHand):
            # Scrubbed again, as its questions become files before they come to the provider.
            stack = Scrubbed(AnsweredByHand(stack, provider.questions, self.questions_by_hand), scrubber)
        recorded = Recorded(stack, self.database, most)
        self._recorded.append(recorded)
        self.questions_by_hand.watch_model(recorded, in_rollouts=role != "optimizer")
        return recorded

    def _hedged(self, role: Role, paid: Model, limiter: Limiter, limits: RateLimits) -> Hedged:
        hedged = Hedged(
            paid,
            limiter,
            limits,
            allowance=self._allowance,
            slots=self.rollout_slots if role == "target" else None,
            keep_spare=lambda request, reply: self.database.put(
                f"{request_key(paid.fingerprint, request)}:spare", request, reply
            ),
        )
        self._hedges.append(hedged)
        return hedged

    def _bounded(self, spec: ModelSpec, cap: int) -> ModelSpec:
        """Where money or tokens are limited, the cap that a reservation counts on is always sent."""
        budget = self.ledger.budget
        is_limited = budget.tokens is not None or budget.usd is not None
        return replace(spec, cap=spec.cap or cap) if is_limited else spec

    def _at_home(self, spec: ModelSpec) -> ModelSpec:
        """Questions by hand lie in the run's own folder unless another is named."""
        if spec.provider != "handoff" or spec.options.get("folder") is not None:
            return spec
        return replace(spec, options={**spec.options, "folder": str(self.folder / "handoff")})

    def stop(self, reason: Stopped) -> None:
        """Send nothing further."""
        for limiter in self._limiters.values():
            limiter.close(reason)

    def slowed(self) -> str:
        """What holds calls back, in words, by endpoint."""
        told = {endpoint: limiter.slowed() for endpoint, limiter in self._limiters.items()}
        slow = [f"{endpoint}: {text}" if len(told) > 1 else text for endpoint, text in told.items() if text]
        return "; ".join(slow)

    async def drain(self) -> None:
        """Wait for calls already sent."""
        for recorded in self._recorded:
            await recorded.drain()
        for hedged in self._hedges:
            await hedged.drain()


@dataclass(slots=True, kw_only=True)
class Targets:
    """Makes evaluators that share the run's ledger, stored rollouts, judge and number of workers.

    `own`, that of the job's own target or targets, is made at once: what cannot work is refused early. Of
    several each works on a part of the train tasks, and on all of val and test.
    """

    job: Job
    models: ModelStack
    ledger: Ledger
    rollouts: Rollouts
    executor: Executor | None = None
    own: Evaluator = field(init=False)
    _judge: ModelJudge | None = None
    _made: list[tuple[tuple[ModelSpec, str], Evaluator]] = field(default_factory=list)
    _proposing: list[Evaluator] = field(default_factory=list)

    def __post_init__(self) -> None:
        job = self.job
        if job.judge is not None:
            from skillopt.evaluation.judge import ModelJudge

            self._judge = ModelJudge(self.models.of("judge", job.judge), max_tokens=job.judge.max_tokens)
        self.own = self.of(job.target, job.seed)
        if job.targets:
            each = {one.name: self.of(one.spec, job.seed) for one in job.targets}
            in_turn = {task.id: place % len(each) for place, task in enumerate(job.splits.train)}
            self.own = SeveralTargets(each, in_turn)

    def of(self, spec: ModelSpec, skill: Skill) -> Evaluator:
        """The evaluator of a target that installs a skill with the files beside its text."""
        wanted = (spec, carried_files(spec, skill))
        for made, evaluator in self._made:
            if made == wanted:
                return evaluator
        evaluator = self._make(spec, skill)
        self._made.append((wanted, evaluator))
        return evaluator

    def proposing(self, spec: ModelSpec, work: Benchmark) -> Evaluator:
        """The evaluator in which an agent works on proposals, paid as the optimizer is."""
        job = self.job
        price = price_for(job.config, "proposer", spec)
        setup = Setup(
            model=spec,
            agent=spec.agent,
            rollout_budget=RolloutBudget(self.ledger, price, allowance_of(job.config), role="optimizer"),
            scrub=job.scrubber.scrub,
        )
        evaluator = Evaluator(
            harness=harnesses.get(spec.harness)(setup),
            model=NotAsked(spec),
            benchmark=work,
            rollouts=self.rollouts,
            workers=1,
            max_tokens=spec.max_tokens,
            scrub=job.scrubber.scrub,
        )
        evaluator.slots = self.models.rollout_slots
        self._proposing.append(evaluator)
        return evaluator

    async def drain(self) -> None:
        """Wait for rollouts already begun."""
        for evaluator in (*(made for _, made in self._made), *self._proposing):
            await evaluator.drain()

    def _make(self, spec: ModelSpec, skill: Skill) -> Evaluator:
        job, config = self.job, self.job.config
        setup = Setup(
            model=spec,
            agent=spec.agent,
            skill=skill,
            listing=None if job.listing is None else replace(job.listing, skill=skill),
            rollout_budget=RolloutBudget(
                self.ledger, price_for(config, "target", spec), allowance_of(config)
            ),
            executor=self.executor if config.env.executor is not None else None,
            scrub=job.scrubber.scrub,
        )
        harness: Harness = harnesses.get(spec.harness)(setup)
        model = self.models.of("target", spec) if harness.asks_model else NotAsked(spec)
        evaluator = Evaluator(
            harness=harness,
            model=model,
            benchmark=job.benchmark,
            rollouts=self.rollouts,
            workers=UNBOUNDED if model.concurrency == UNBOUNDED else config.env.workers,
            max_tokens=spec.max_tokens,
            cap_is_own_limit=harness.asks_model and declaration(spec.provider).cap_is_own_limit,
            scrub=job.scrubber.scrub,
            judge=self._judge,
            executor=self.executor,
        )
        if evaluator.workers != UNBOUNDED:
            evaluator.slots = self.models.rollout_slots
        self.models.questions_by_hand.watch_rollouts(lambda: evaluator.under_way)
        return evaluator


def carried_files(spec: ModelSpec, skill: Skill) -> str:
    """Hash of the files that a target gets beside a skill's text; empty where it gets none."""
    return carried_digest(skill) if works_alone(spec.harness) else ""


def budget_of(config: Config) -> Budget:
    """The limits of a run."""
    limits = config.budget
    seconds = None if limits.minutes is None else limits.minutes * 60
    return Budget(calls=limits.calls, tokens=limits.tokens, usd=_exact(limits.usd), seconds=seconds)


def allowance_of(config: Config) -> Budget:
    """What one rollout may use, where an agent makes the calls itself."""
    allowed = config.budget.per_rollout
    return Budget(tokens=allowed.tokens, usd=_exact(allowed.usd))


def known_price(spec: ModelSpec) -> Price | None:
    """The price of a role's model: as declared, else as published; None is unknown, and is not zero."""
    if spec.price is not None:
        return _declared(spec.price)
    if spec.provider not in PROVIDERS.names():  # a login that only an agent program can use
        return None
    by_key = (one for one in agents() if one.login == spec.provider and one.prefers_vendor_key)
    program = next(by_key, None)
    if program is not None and spec.api_key and not spec.api_key.startswith(program.token_prefix):
        return price_of(program.vendor, spec.name, base_url=spec.base_url)
    return price_of(spec.provider, spec.name, base_url=spec.base_url)


def least_cap(spec: ModelSpec) -> int:
    """The output that a call of a role sets aside where a budget leaves no more."""
    name = spec.provider
    is_fixed = name in PROVIDERS.names() and declaration(name).fixes_cap(spec)
    return spec.max_tokens if is_fixed else min(spec.max_tokens, LEAST_CAP)


def price_for(config: Config, role: RoleName, spec: ModelSpec) -> Price | None:
    """The price of a role's model; raises `ConfigError` where a budget in dollars needs one not known."""
    price = known_price(spec)
    in_agent = works_alone(spec.harness)
    if (
        price is None
        and config.budget.usd is not None
        and not (in_agent and config.budget.per_rollout.usd is not None)
    ):
        hint = "set budget.per_rollout.usd, " if in_agent else ""
        raise ConfigError(
            f"A budget in dollars needs a price for the {role} {spec.name!r}, and none is known."
            f" Declare model.{role}.price (input and output, dollars per million tokens), {hint}or give"
            " the budget in tokens or calls."
        )
    return price


def _declared(price: PriceConfig) -> Price:
    per_token: dict[str, Any] = {
        name: exact / 1_000_000
        for name, value in price.model_dump().items()
        if (exact := _exact(value)) is not None
    }
    per_token.setdefault("cached", per_token["input"])
    return Price(**per_token, source="configuration", date=datetime.now(timezone.utc).date())


def _exact(dollars: float | None) -> Fraction | None:
    """The number as it is written in a file, not as a float holds it."""
    return None if dollars is None else Fraction(str(dollars))
