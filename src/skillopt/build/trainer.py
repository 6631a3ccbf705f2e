"""The trainer of an open run: optimizer, gate, plan and sealed test, wired from its configuration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from skillopt.agents import agents
from skillopt.build.assembly import OpenRun
from skillopt.build.job import Job
from skillopt.build.money import price_for
from skillopt.build.targets import allowance_of
from skillopt.config.schema import OptimizerConfig
from skillopt.evaluation.leaks import LeakGuard
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.events import Sink
from skillopt.gate.constraints import Constraints
from skillopt.gate.gate import Gate
from skillopt.ledger import Ledger
from skillopt.models.port import Model
from skillopt.optimizer.optimizer import Optimizer, SkillAware
from skillopt.skill.store import SkillStore
from skillopt.tasks.protected import protected_by
from skillopt.train.exam import Exam
from skillopt.train.log import Log
from skillopt.train.plan import Plan
from skillopt.train.schedule import SCHEDULES
from skillopt.train.trainer import Trainer


def trainer_of(opened: OpenRun) -> Trainer:
    """The trainer that the job's configuration asks for, working in this folder."""
    return trainer_from(
        opened.job,
        evaluator=opened.evaluator,
        optimizer=opened.models.of("optimizer", opened.job.optimizer),
        rewriter=_rewriter(opened),
        ledger=opened.ledger,
        log=opened.run,
        skills=opened.run.skills,
    )


def trainer_from(
    job: Job,
    *,
    evaluator: Evaluator,
    optimizer: Model,
    rewriter: Model | None,
    ledger: Ledger,
    log: Log,
    skills: SkillStore,
) -> Trainer:
    """The trainer of a job on these parts, of a run folder or of a rehearsal in memory."""
    config = job.config
    gate = gate_of(job, evaluator)
    return Trainer(
        evaluator=evaluator,
        optimizer=optimizer_of(job, optimizer, emit=log.emit, rewriter=rewriter),
        gate=gate,
        plan=plan_of(job),
        exam=Exam(
            evaluator,
            rows_of(job.splits.test),
            ledger,
            price=price_for(config, "target", job.target),
            max_tokens=job.target.max_tokens,
            gate=gate,
            skills=2 if gate.is_on and config.optimizer.slow_update_gate_with_selection else 3,
            allowance=allowance_of(config) if job.target.harness in agents.names() else None,
        ),
        log=log,
        skills=skills,
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


def gate_of(job: Job, evaluator: Evaluator) -> Gate:
    """The gate over the job's val rows."""
    config = job.config
    return Gate(
        evaluator,
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


def plan_of(job: Job) -> Plan:
    """The epochs, batches and limits of the run."""
    config = job.config
    return Plan(
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


def optimizer_of(job: Job, model: Model, *, emit: Sink, rewriter: Model | None = None) -> Optimizer:
    """The optimizer's stages on top of its model."""
    config = job.config
    return Optimizer(
        model,
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
    )


def _rewriter(opened: OpenRun) -> Model | None:
    """The optimizer with the effort of a rewrite, where that is another."""
    config, spec = opened.job.config, opened.job.optimizer
    effort = config.model.rewrite_reasoning_effort
    if config.optimizer.skill_update_mode == "patch" or effort in (None, spec.model.reasoning_effort):
        return None
    return opened.models.of("optimizer", replace(spec, model=replace(spec.model, reasoning_effort=effort)))


def _skill_aware(config: OptimizerConfig) -> SkillAware | None:
    if not config.use_skill_aware_reflection:
        return None
    return SkillAware(
        source=config.skill_aware_appendix_source, consolidate_above=config.skill_aware_consolidate_threshold
    )
