"""A training run, assembled: gate, plan, optimizer, exam and trainer on top of a lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from skillopt.agents import agents
from skillopt.build.job import Job
from skillopt.build.lab import Lab
from skillopt.build.tracking import deliveries, kinds_of
from skillopt.config.schema import OptimizerConfig
from skillopt.evaluate.leaks import LeakGuard
from skillopt.evaluate.runner import rows_of
from skillopt.events import Notice, RunStarted, Sink
from skillopt.gate.constraints import Constraints
from skillopt.gate.gate import Gate
from skillopt.ledger import Budget
from skillopt.models.port import Model
from skillopt.models.stack.limited import Retry
from skillopt.optimizer.optimizer import Optimizer, SkillAware
from skillopt.runs.database import stored_text
from skillopt.runs.exports import Exports
from skillopt.runs.log import DATABASE
from skillopt.skill.spec import violations
from skillopt.tasks.protected import protected_by
from skillopt.train.exam import Exam
from skillopt.train.plan import Plan
from skillopt.train.schedule import SCHEDULES
from skillopt.train.trainer import Fitted, Trainer


class Engine(Lab):
    """One training run in its folder."""

    def __init__(
        self, job: Job, folder: Path, *, sinks: Sequence[Sink] = (), retry: Retry | None = None
    ) -> None:
        super().__init__(job, folder, job.identity(), sinks=sinks, retry=retry)

    def _open(self, identity: Mapping[str, Any], budget: Budget, sinks: Sequence[Sink]) -> None:
        super()._open(identity, budget, sinks)
        self._export()
        self._track()
        self.trainer = self._trainer(
            self.model("optimizer", self.job.optimizer, self.optimizer_price), self._rewriter()
        )

    def _rewriter(self) -> Model | None:
        """The optimizer with the effort of a rewrite, where that is another."""
        job, config = self.job, self.job.config
        effort = config.model.rewrite_reasoning_effort
        if config.optimizer.skill_update_mode == "patch" or effort in (
            None,
            job.optimizer.model.reasoning_effort,
        ):
            return None
        spec = replace(job.optimizer, model=replace(job.optimizer.model, reasoning_effort=effort))
        return self.model("optimizer", spec, self.optimizer_price)

    async def __aenter__(self) -> Engine:
        return self

    async def fit(self) -> Fitted:
        """Train to the end of the plan or the budget. Whatever stops it, calls already sent are waited for
        and kept.
        """
        self._announce()
        try:
            return await self.trainer.fit(self.job.skill)
        finally:
            await self.trainer.exam.withdraw()
            await self.drain()

    def _trainer(self, optimizer: Model, rewriter: Model | None) -> Trainer:
        job, config, emit = self.job, self.job.config, self.run.emit
        gate = Gate(
            self.evaluator,
            rows_of(job.splits.val, job.repeats),
            metric=config.evaluation.gate_metric
            or {True: "soft", False: "hard", None: None}[job.benchmark.graded],
            weight=config.evaluation.gate_mixed_weight,
            is_on=config.evaluation.use_gate,
            policy=config.gate.policy,
            alpha=config.gate.alpha,
            max_chars=config.gate.max_chars,
            confirm_draws=config.gate.confirm_draws,
            seed_chars=len(job.skill.rendered),
            constraints=Constraints(
                tokens=config.gate.max_tokens_increase,
                latency=config.gate.max_latency_increase,
                unknown=config.gate.unknown_effort,
            ),
        )
        plan = Plan(
            train=job.splits.train,
            epochs=config.train.num_epochs,
            batch_size=config.train.batch_size * config.train.accumulation,
            seed=config.train.seed,
            schedule=SCHEDULES[config.optimizer.lr_scheduler],
            largest_limit=config.optimizer.learning_rate,
            smallest_limit=config.optimizer.min_learning_rate,
            slow_samples=config.optimizer.slow_update_samples,
            patience=config.train.patience,
            draws=config.gradient.rollouts_per_task,
            past=() if job.look_back is None else job.look_back.tasks,
        )
        return Trainer(
            evaluator=self.evaluator,
            optimizer=Optimizer(
                optimizer,
                prompts=job.benchmark.prompts,
                max_tokens=job.optimizer.max_tokens,
                context_window=config.model.optimizer.context_window,
                minibatch_size=config.gradient.minibatch_size,
                merge_batch_size=config.gradient.merge_batch_size,
                limit=config.optimizer.learning_rate,
                failure_only=config.gradient.failure_only,
                contrasts=config.gradient.rollouts_per_task > 1,
                emit=emit,
                mode=config.optimizer.skill_update_mode,
                control=config.optimizer.lr_control_mode,
                skill_aware=_skill_aware(config.optimizer),
                rewrite_max_tokens=config.model.rewrite_max_completion_tokens,
                rewriter=rewriter,
            ),
            gate=gate,
            plan=plan,
            exam=Exam(
                self.evaluator,
                rows_of(job.splits.test),
                self.ledger,
                price=self.target_price,
                max_tokens=job.target.max_tokens,
                gate=gate,
                skills=2 if gate.is_on and config.optimizer.slow_update_gate_with_selection else 3,
                allowance=self.allowance if job.target.harness in agents.names() else None,
            ),
            log=self.run,
            skills=self.run.skills,
            use_slow_update=config.optimizer.use_slow_update,
            use_meta_skill=config.optimizer.use_meta_skill,
            gates_slow_update=config.optimizer.slow_update_gate_with_selection,
            pair_policy=config.optimizer.longitudinal_pair_policy,
            salvages=config.optimizer.salvage,
            look_back=job.look_back,
            guard=LeakGuard(job.splits, partial(protected_by, job.benchmark), job.skill.rendered)
            if config.gate.leak_guard
            else None,
        )

    def _export(self) -> None:
        exports = Exports(self.run, predictions=self.job.config.output.predictions)
        exports.catch_up()
        self.run.watch(exports, facts_only=True)

    def _track(self) -> None:
        """Tell the trackers, first what they missed: they follow facts, so a stop or a late start loses
        nothing.
        """
        tracking = self.job.config.tracking
        kinds = kinds_of(tracking)
        settings = self.job.scrubber.scrub_json(self.job.settings)
        project = self.job.scrubber.scrub(tracking.project)
        tracking = tracking.model_copy(update={"project": project})
        for delivery in deliveries(
            kinds,
            tracking,
            self.folder,
            identity=self.run.identity,
            settings=settings,
            skill=self._skill_text,
            warn=self.run.emit,
        ):
            delivery.start(list(self.run.history()))
            self._folder_stack.callback(delivery.close)
            self.run.watch(delivery)
        self._tells_calls = any(kind.wants_calls for kind in kinds.values())

    def _skill_text(self, digest: str) -> str:
        """For trackers, which work in threads of their own."""
        return stored_text(self.folder / DATABASE, digest) or ""

    def _announce(self) -> None:
        job, plan = self.job, self.trainer.plan
        self.run.emit(
            RunStarted(
                id="run",
                identity=self.run.identity,
                benchmark=job.benchmark.name,
                target=job.config.model.target.name,
                optimizer=job.config.model.optimizer.name,
                simulated=job.simulated,
                steps=plan.total_steps,
                counts={split: len(job.splits.of(split)) for split in ("train", "val", "test")},
            )
        )
        for text in self._notes():
            self.run.emit(Notice(text=text))

    def _notes(self) -> list[str]:
        job, evaluation = self.job, self.job.config.evaluation
        notes = [f"{job.seed.path} is empty: a start without a seed."] if job.seed.seedless else []
        if job.skill.frontmatter:
            folder = None if job.seed.folder is None else job.seed.folder.resolve().name
            broken = [one.message for one in violations(job.skill.text, folder) if one.severity == "error"]
            notes += [
                f"The skill breaks a rule of the Agent Skills format, kept as it is: {message}"
                for message in broken
            ]
        if job.repeats > 1 and evaluation.repeats is None:
            notes.append(
                f"{len(job.splits.val)} val tasks are few: the gate draws each of them {job.repeats} times."
            )
        if not self.trainer.gate.verified:
            notes.append("Fewer than 5 val tasks: verdicts of this run are marked unverified.")
        if not evaluation.use_gate:
            notes.append("The gate is off: every candidate is taken without proof, and every report says so.")
        elif self.trainer.ungated:
            notes.append(
                "Slow updates are taken without a gate and measured afterwards, and every report says so."
            )
        return notes


def _skill_aware(config: OptimizerConfig) -> SkillAware | None:
    if not config.use_skill_aware_reflection:
        return None
    return SkillAware(
        source=config.skill_aware_appendix_source, consolidate_above=config.skill_aware_consolidate_threshold
    )
