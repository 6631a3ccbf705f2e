"""The trainer of an open run: optimizer, gate, plan and sealed test, wired from its configuration."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from skillopt.build.assembly import OpenRun
from skillopt.build.description import about_description
from skillopt.build.job import Job
from skillopt.build.money import least_cap, price_for
from skillopt.build.targets import allowance_of
from skillopt.config.schema import Config, OptimizerConfig
from skillopt.errors import SkillError
from skillopt.evaluation.leaks import LeakGuard
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.gate.constraints import outgrows
from skillopt.gate.gate import Gate
from skillopt.gate.settings import GateSettings
from skillopt.harnesses import works_alone
from skillopt.ledger import Ledger
from skillopt.models.port import Model
from skillopt.models.prices import Price
from skillopt.optimizer.optimizer import Optimizer, OptimizerSettings, SkillAware
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.optimizer.proposers.port import Proposer, ProposerSetup
from skillopt.optimizer.small import is_small
from skillopt.skill.description import problem_with
from skillopt.skill.store import SkillStore
from skillopt.tasks.benchmark import SaysRule, Undivided
from skillopt.tasks.protected import protected_by
from skillopt.train.epoch_end import EpochSettings
from skillopt.train.log import Log
from skillopt.train.plan import Plan
from skillopt.train.pooled_test import PooledRows, PooledTest
from skillopt.train.pruning import Pruner
from skillopt.train.schedule import SCHEDULES
from skillopt.train.sealed_test import SealedTest, TestSettings
from skillopt.train.strategies import STRATEGIES
from skillopt.train.trainer import Trainer

S = TypeVar("S")


def trainer_of(opened: OpenRun, folds: Callable[[], Awaitable[PooledRows]] | None = None) -> Trainer:
    """The trainer that the job's configuration asks for, working in this folder."""
    optimizer = opened.models.of("optimizer", opened.job.optimizer)
    return trainer_from(
        opened.job,
        evaluator=opened.evaluator,
        optimizer=optimizer,
        rewriter=_rewriter(opened),
        proposer=_proposer(opened, optimizer),
        ledger=opened.ledger,
        log=opened.run,
        skills=opened.run.skills,
        folds=folds,
    )


def trainer_from(
    job: Job,
    *,
    evaluator: Evaluator,
    optimizer: Model,
    rewriter: Model | None,
    proposer: Proposer | None,
    ledger: Ledger,
    log: Log,
    skills: SkillStore,
    folds: Callable[[], Awaitable[PooledRows]] | None = None,
) -> Trainer:
    """The trainer of a job on these parts, or of a rehearsal. `folds` measures cross-fitted tasks."""
    config = job.config
    gate = gate_of(job, evaluator)
    is_gated = gate.is_on and config.optimizer.slow_update_gate_with_selection
    price = _dearest([price_for(config, "target", spec) for spec in job.specs])
    test = TestSettings(
        price=price,
        max_tokens=max(spec.max_tokens for spec in job.specs),
        least_cap=max(map(least_cap, job.specs)),
        skills=2 if is_gated else 3,
        always=job.opens_test or config.evaluation.eval_test is True,
        allowance=allowance_of(config) if any(works_alone(one.harness) for one in job.specs) else None,
    )
    guard = None
    if config.gate.leak_guard:
        guard = LeakGuard(job.splits, partial(protected_by, job.benchmark), job.skill.rendered)
    return Trainer(
        gate=gate,
        optimizer=optimizer_of(job, optimizer, rewriter, proposer),
        plan=plan_of(job),
        test=SealedTest(
            evaluator, rows_of(job.splits.test, job.test_draws * len(job.specs)), ledger, gate, test
        )
        if folds is None
        else PooledTest(folds, evaluator, ledger, gate, test),
        log=log,
        skills=skills,
        epoch_settings=_settings(EpochSettings, config.optimizer),
        strategy=STRATEGIES.get(config.train.strategy),
        strategy_settings=strategy_settings(config),
        guard=guard,
        look_back=job.look_back,
        start=job.start,
        ahead=_may_run_ahead(job, ledger),
        pruner=Pruner(gate, job.splits.train) if config.optimizer.prune else None,
    )


def _dearest(prices: Sequence[Price | None]) -> Price | None:
    """The price that a rollout of the test is counted at; unknown where one is."""
    known = [price for price in prices if price is not None]
    return max(known, key=lambda price: price.output) if len(known) == len(prices) else None


def _may_run_ahead(job: Job, ledger: Ledger) -> bool:
    """Whether rollouts may run before their turn: no budget could end earlier for it, no agent is paid as a
    whole, nobody answers by hand, and no limit on effort could make the baseline the end.
    """
    is_cheap = not any(works_alone(one.harness) or one.model.provider == "handoff" for one in job.specs)
    limits = (job.config.gate.max_tokens_increase, job.config.gate.max_latency_increase)
    is_bounded = ledger.budget.is_limited or any(limit is not None for limit in limits)
    return job.config.train.ahead == "auto" and is_cheap and not is_bounded


def gate_of(job: Job, evaluator: Evaluator) -> Gate:
    """The gate over the job's val rows. Raises `SkillError` for a seed that the target cannot take."""
    window = job.config.model.target.context_window
    if problem := outgrows(job.skill.rendered, window):
        raise SkillError(f"{problem[0].upper()}{problem[1:]}. Shorten the skill, or correct the window.")
    metric = {True: "soft", False: "hard", None: None}[job.benchmark.graded]
    settings = _settings(
        GateSettings,
        job.config.gate,
        job.config.evaluation,
        gate_metric=job.config.evaluation.gate_metric or metric,
        seed_chars=len(job.skill.rendered),
        rule=partial(outgrows, window=window) if job.listing is None else problem_with,
        compared_targets=len(job.specs) if job.config.gate.targets == "none_worse" else 1,
        # A published benchmark has its scorer: there is no other to advise.
        check_baseline=job.config.evaluation.check_baseline
        and isinstance(job.benchmark, Undivided)
        and not job.folds,  # their answers were checked before the first round
    )
    return Gate(evaluator, rows_of(job.splits.val, job.repeats * len(job.specs)), settings)


def plan_of(job: Job) -> Plan:
    """The epochs, batches and limits of the run."""
    config = job.config
    return Plan(
        train=job.splits.train,
        epochs=config.train.num_epochs,
        batch_size=batch_size_of(job),
        seed=config.train.seed,
        schedule=SCHEDULES[config.optimizer.lr_scheduler],
        largest_limit=config.optimizer.learning_rate,
        smallest_limit=config.optimizer.min_learning_rate,
        slow_samples=config.optimizer.slow_update_samples,
        patience=config.train.patience,
        draws=config.gradient.rollouts_per_task,
        past=() if job.look_back is None else job.look_back.tasks,
    )


def batch_size_of(job: Job) -> int:
    """Train tasks of a step; `proof` takes its own large batches, of equal size."""
    config = job.config
    if config.train.strategy != "proof":
        return config.train.batch_size * config.train.accumulation
    tasks = len(job.splits.train)
    return math.ceil(tasks / math.ceil(tasks / config.train.proof.batch))


def strategy_settings(config: Config) -> dict[str, Any]:
    """What the strategy is told."""
    if config.train.strategy == "proof":
        return config.train.proof.model_dump()
    return {"salvage": config.optimizer.salvage}


def optimizer_of(
    job: Job, model: Model, rewriter: Model | None = None, proposer: Proposer | None = None
) -> Optimizer:
    """The optimizer's stages on top of its model."""
    config = job.config
    settings = _settings(
        OptimizerSettings,
        config.gradient,
        config.optimizer,
        config.model,
        prompts=job.benchmark.prompts,
        max_tokens=job.optimizer.max_tokens,
        context_window=config.model.optimizer.context_window,
        small=asks_small(job),
        scoring_rule=_rule(job),
        skill_aware=_skill_aware(config.optimizer),
        files=job.editable,
        about="" if job.listing is None else about_description(job.listing),
    )
    return Optimizer(model, settings, rewriter, proposer)


def _rule(job: Job) -> str:
    return job.benchmark.scoring_rule if isinstance(job.benchmark, SaysRule) else ""


def asks_small(job: Job) -> bool:
    """Whether the optimizer is asked in the form for small models."""
    if job.config.optimizer.skill_update_mode != "patch":
        return False
    said, window = job.config.model.optimizer.prompts, job.config.model.optimizer.context_window
    return is_small(job.optimizer.model.name, window) if said == "auto" else said == "small"


def _settings(kind: Callable[..., S], *sections: BaseModel, **given: Any) -> S:
    """Settings of the engine from sections of the configuration: their fields have the names of its keys."""
    names = {name for name in inspect.signature(kind).parameters if name not in given}
    found = {
        name: getattr(section, name)
        for section in sections
        for name in names & set(type(section).model_fields)
    }
    return kind(**found, **given)


def _rewriter(opened: OpenRun) -> Model | None:
    """The optimizer with the effort of a rewrite, where that is another."""
    config, spec = opened.job.config, opened.job.optimizer
    effort = config.model.rewrite_reasoning_effort
    if config.optimizer.skill_update_mode == "patch" or effort in (None, spec.model.reasoning_effort):
        return None
    return opened.models.of("optimizer", replace(spec, model=replace(spec.model, reasoning_effort=effort)))


def _proposer(opened: OpenRun, model: Model) -> Proposer | None:
    """Who proposes where the optimizer's analysts do not."""
    job, spec = opened.job, opened.job.proposer
    setup = ProposerSetup(
        model=model,
        agent=None if spec is None else partial(opened.targets.proposing, spec),
        seed=job.seed,
        editable=job.editable,
        target_prompt=job.benchmark.prompts.get("rollout", ""),
        scoring_rule=_rule(job),
    )
    proposer: Proposer | None = PROPOSERS.get(job.config.train.proposer)(setup)
    return proposer


def _skill_aware(config: OptimizerConfig) -> SkillAware | None:
    if not config.use_skill_aware_reflection:
        return None
    return SkillAware(
        source=config.skill_aware_appendix_source, consolidate_above=config.skill_aware_consolidate_threshold
    )
