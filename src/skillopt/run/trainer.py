"""The trainer of an open run: optimizer, gate, plan and sealed test, wired from its configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from skillopt.errors import SkillError
from skillopt.evaluation.leaks import LeakGuard
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.gate.constraints import outgrows
from skillopt.gate.gate import Gate
from skillopt.harnesses import works_alone
from skillopt.models.port import Model
from skillopt.money import Ledger, Price
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.optimizer.proposers.port import Proposer, ProposerSetup
from skillopt.run.assembly import OpenRun
from skillopt.run.job import Job
from skillopt.run.models import allowance_of, least_cap, price_for
from skillopt.skill.install import problem_with
from skillopt.train.sealed_test import SealedTest
from skillopt.train.strategies import STRATEGIES
from skillopt.train.trainer import Trainer

if TYPE_CHECKING:
    from skillopt.train.pruning import Pruner
    from skillopt.train.sealed_test import PooledRows


def trainer_of(opened: OpenRun, folds: Callable[[], Awaitable[PooledRows]] | None = None) -> Trainer:
    """The trainer that the job's configuration asks for, working in this folder."""
    job, evaluator = opened.job, opened.evaluator
    config = job.config
    gate = gate_of(job, evaluator)
    is_gated = gate.is_on and config.optimizer.slow_update_gate_with_selection
    guard = None
    if config.gate.leak_guard:
        guard = LeakGuard(job.splits, job.benchmark.protected, job.skill.rendered)
    return Trainer(
        gate=gate,
        optimizer=_optimizer(opened),
        plan=job.plan,
        test=_test_kind(folds)(
            evaluator,
            rows_of(job.splits.test, job.test_draws * len(job.specs)) if folds is None else (),
            opened.ledger,
            gate,
            price=_dearest([price_for(config, "target", spec) for spec in job.specs]),
            max_tokens=max(spec.max_tokens for spec in job.specs),
            least_cap=max(map(least_cap, job.specs)),
            skills=2 if is_gated else 3,
            allowance=allowance_of(config) if any(works_alone(one.harness) for one in job.specs) else None,
            always=folds is not None or job.division.is_fold or config.evaluation.eval_test is True,
        ),
        log=opened.run,
        skills=opened.run.skills,
        config=config,
        strategy=STRATEGIES.get(config.train.strategy),
        guard=guard,
        look_back=job.look_back,
        start=job.start,
        ahead=_may_run_ahead(job, opened.ledger),
        pruner=_pruner(job, gate),
    )


def _test_kind(folds: Callable[[], Awaitable[PooledRows]] | None) -> Callable[..., SealedTest]:
    if folds is None:
        return SealedTest
    from skillopt.train.sealed_test import PooledTest

    return partial(PooledTest, folds)


def _pruner(job: Job, gate: Gate) -> Pruner | None:
    if not job.config.optimizer.prune:
        return None
    from skillopt.train.pruning import Pruner

    return Pruner(gate, job.splits.train)


def _dearest(prices: Sequence[Price | None]) -> Price | None:
    """The price that a rollout of the test is counted at; unknown where one is."""
    known = [price for price in prices if price is not None]
    return max(known, key=lambda price: price.output) if len(known) == len(prices) else None


def _may_run_ahead(job: Job, ledger: Ledger) -> bool:
    """Whether rollouts may run before their turn: no budget could end earlier for it, no agent is paid as a
    whole, nobody answers by hand, and no limit on effort could make the baseline the end.
    """
    is_cheap = not any(works_alone(one.harness) or one.provider == "handoff" for one in job.specs)
    limits = (job.config.gate.max_tokens_increase, job.config.gate.max_latency_increase)
    is_bounded = ledger.budget.is_limited or any(limit is not None for limit in limits)
    return job.config.train.ahead == "auto" and is_cheap and not is_bounded


def gate_of(job: Job, evaluator: Evaluator) -> Gate:
    """The gate over the job's val rows. Raises `SkillError` for a seed that the target cannot take."""
    window = job.config.model.target.context_window
    if problem := outgrows(job.skill.rendered, window):
        raise SkillError(f"{problem[0].upper()}{problem[1:]}. Shorten the skill, or correct the window.")
    evaluation = job.config.evaluation
    metric = {True: "soft", False: "hard", None: None}[job.benchmark.graded]
    # A published benchmark has its scorer, so there is no other to advise; the answers of folds were checked
    # before the first round.
    advises = job.benchmark.own_scorer and not job.division.folds
    return Gate(
        evaluator,
        rows_of(job.splits.val, job.repeats * len(job.specs)),
        job.config.gate,
        evaluation.having(
            {
                "gate_metric": evaluation.gate_metric or metric,
                "check_baseline": evaluation.check_baseline and advises,
            }
        ),
        seed_chars=len(job.skill.rendered),
        targets=len(job.specs),
        rule=partial(outgrows, window=window) if job.listing is None else problem_with,
    )


def _optimizer(opened: OpenRun) -> Optimizer:
    """The optimizer's stages on top of its model."""
    job, model = opened.job, opened.models.of("optimizer", opened.job.optimizer)
    config = job.config
    return Optimizer(
        model,
        config.optimizer,
        config.gradient,
        max_tokens=job.optimizer.max_tokens,
        context_window=config.model.optimizer.context_window,
        rewrite_tokens=config.model.rewrite_max_completion_tokens,
        rewriter=_rewriter(opened),
        proposer=_proposer(opened, model),
        prompts=job.benchmark.prompts,
        scoring_rule=job.benchmark.scoring_rule,
        about=_about(job),
        files=job.editable,
        is_small=job.asks_small,
    )


def _about(job: Job) -> str:
    """What the optimizer is told of a skill that is only a description."""
    if job.listing is None:
        return ""
    from skillopt.run.description import about_description

    return about_description(job.listing)


def _rewriter(opened: OpenRun) -> Model | None:
    """The optimizer with the effort of a rewrite, where that is another."""
    config, spec = opened.job.config, opened.job.optimizer
    effort = config.model.rewrite_reasoning_effort
    if config.optimizer.skill_update_mode == "patch" or effort in (None, spec.reasoning_effort):
        return None
    return opened.models.of("optimizer", replace(spec, reasoning_effort=effort))


def _proposer(opened: OpenRun, model: Model) -> Proposer | None:
    """Who proposes where the optimizer's analysts do not."""
    job, spec = opened.job, opened.job.proposer
    setup = ProposerSetup(
        model=model,
        agent=None if spec is None else partial(opened.targets.proposing, spec),
        seed=job.seed,
        editable=job.editable,
        target_prompt=job.benchmark.prompts.get("rollout", ""),
        scoring_rule=job.benchmark.scoring_rule,
    )
    proposer: Proposer | None = PROPOSERS.get(job.config.train.proposer)(setup)
    return proposer
