"""The evaluators of an open run: one for each target, and for an agent one for each set of carried files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from skillopt.config.roles import RoleSpec
from skillopt.evaluation.judge import ModelJudge
from skillopt.evaluation.runner import Evaluator, Rollouts, SeveralTargets
from skillopt.executors import Executor
from skillopt.harnesses import RolloutBudget, harnesses, works_alone
from skillopt.harnesses.port import Harness, NotAsked, Setup
from skillopt.models import provider
from skillopt.models.port import UNBOUNDED
from skillopt.money import Ledger
from skillopt.run.job import Job
from skillopt.run.models import ModelStack, allowance_of, price_for
from skillopt.skill.folder import Skill
from skillopt.skill.install import carried_digest
from skillopt.tasks.benchmark import Benchmark


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
    _made: list[tuple[tuple[RoleSpec, str], Evaluator]] = field(default_factory=list)
    _proposing: list[Evaluator] = field(default_factory=list)

    def __post_init__(self) -> None:
        job = self.job
        if job.judge is not None:
            self._judge = ModelJudge(self.models.of("judge", job.judge), max_tokens=job.judge.max_tokens)
        self.own = self.of(job.target, job.seed)
        if job.targets:
            each = {one.name: self.of(one.spec, job.seed) for one in job.targets}
            in_turn = {task.id: place % len(each) for place, task in enumerate(job.splits.train)}
            self.own = SeveralTargets(each, in_turn)

    def of(self, spec: RoleSpec, skill: Skill) -> Evaluator:
        """The evaluator of a target that installs a skill with the files beside its text."""
        wanted = (spec, carried_files(spec, skill))
        for made, evaluator in self._made:
            if made == wanted:
                return evaluator
        evaluator = self._make(spec, skill)
        self._made.append((wanted, evaluator))
        return evaluator

    def proposing(self, spec: RoleSpec, work: Benchmark) -> Evaluator:
        """The evaluator in which an agent works on proposals, paid as the optimizer is."""
        job = self.job
        price = price_for(job.config, "proposer", spec)
        setup = Setup(
            model=spec.model,
            agent=spec.agent,
            rollout_budget=RolloutBudget(self.ledger, price, allowance_of(job.config), role="optimizer"),
            scrub=job.scrubber.scrub,
        )
        evaluator = Evaluator(
            harness=harnesses.get(spec.harness)(setup),
            model=NotAsked(spec.model),
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

    def _make(self, spec: RoleSpec, skill: Skill) -> Evaluator:
        job, config = self.job, self.job.config
        setup = Setup(
            model=spec.model,
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
        model = self.models.of("target", spec) if harness.asks_model else NotAsked(spec.model)
        evaluator = Evaluator(
            harness=harness,
            model=model,
            benchmark=job.benchmark,
            rollouts=self.rollouts,
            workers=UNBOUNDED if model.concurrency == UNBOUNDED else config.env.workers,
            max_tokens=spec.max_tokens,
            cap_is_own_limit=harness.asks_model and provider(spec.model.provider).cap_is_own_limit,
            scrub=job.scrubber.scrub,
            judge=self._judge,
            executor=self.executor,
        )
        if evaluator.workers != UNBOUNDED:
            evaluator.slots = self.models.rollout_slots
        self.models.questions_by_hand.watch_rollouts(lambda: evaluator.under_way)
        return evaluator


def carried_files(spec: RoleSpec, skill: Skill) -> str:
    """Hash of the files that a target gets beside a skill's text; empty where it gets none."""
    return carried_digest(skill) if works_alone(spec.harness) else ""
