"""Rehearses a run in memory: the real trainer, gate, optimizer and plan of the job, on doubles that count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from skillopt.evaluation.runner import Evaluator
from skillopt.events import Checkpoint
from skillopt.events.state import MemoryEntry
from skillopt.harnesses import works_alone
from skillopt.messages import Role
from skillopt.models.port import ModelSpec
from skillopt.models.providers.world import build as world_of
from skillopt.models.world.rules import ANCHOR, WorldRules
from skillopt.money import Budget, Ledger
from skillopt.run.estimation.counting import JUDGED_IN_STEPS, CallCounter, Counted, Scale
from skillopt.run.estimation.doubles import (
    CountingHarness,
    CountingOptimizer,
    CountingProposer,
    CountingTarget,
    RehearsedTasks,
)
from skillopt.run.job import Job
from skillopt.run.trainer import plan_of, trainer_from
from skillopt.runs.database import Database
from skillopt.skill.store import SkillStore
from skillopt.tasks.splits import Splits

Luck = Literal["likely", "nothing found", "much harm"]
LUCKS: tuple[Luck, ...] = ("likely", "nothing found", "much harm")
TURNS = 6
"""Turns of a rollout that uses tools, where nothing better is known."""
AGENT_TOKENS = 10_000
"""What an agent sends of its own with every turn: its instructions and the descriptions of its tools."""
IMAGE_TOKENS = 1_100
REAL_NOISE = 0.1
"""Share of answers that go the other way whatever the skill says, for a real target."""
MOST_STEPS = 12
MOST_ROWS = 48
"""Of a larger plan so many steps, and so many rows of val and test, are rehearsed, and the counts scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a rehearsed run took."""

    stages: Mapping[tuple[str, Role], Counted]
    skill_chars: int
    """Length of the best skill at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """How the runs of a job are rehearsed."""

    job: Job
    replies: Mapping[Role, int | None]
    turns: int
    in_agent: bool
    scale: Scale
    steps: int
    """Of the whole run."""

    @classmethod
    def of(cls, job: Job, replies: Mapping[Role, int | None]) -> Rehearsal:
        """A rehearsal of the job, or of a part of it where it is large."""
        plain = job.target.harness == "chat" and job.benchmark.open(job.splits.train[0]) is None
        part, scale = _part_of(job)
        return cls(
            job=part,
            replies=replies,
            turns=1 if plain else TURNS,
            in_agent=works_alone(job.target.harness),
            scale=scale,
            steps=plan_of(job).total_steps,
        )

    @property
    def is_sampled(self) -> bool:
        """Whether only a part of the plan is rehearsed."""
        return self.scale != Scale()

    def tasks_judged(self, stage: str) -> float:
        """How many tasks the judge reads in a stage, at the least."""
        splits, scale = self.job.splits, self.scale
        if stage == JUDGED_IN_STEPS:
            return len(splits.train) * scale.train
        return len(splits.val) * scale.val + len(splits.test) * scale.test

    async def run(self, luck: Luck) -> Rehearsed:
        """Train to the end of the plan, in memory; nothing is sent and nothing written."""
        job, counter = self.job, CallCounter(self.scale)
        tasks = RehearsedTasks(
            job.benchmark, job.splits, past=() if job.look_back is None else job.look_back.tasks
        )
        seed = job.skill.text if ANCHOR in job.skill.text else f"{job.skill.text.rstrip()}\n\n{ANCHOR}\n"
        rehearsed = replace(
            job,
            benchmark=tasks,
            division=replace(job.division, splits=tasks.splits),
            seed=replace(job.seed, document=replace(job.skill, text=seed)),
            listing=None,
            look_back=None if job.look_back is None else replace(job.look_back, tasks=tasks.past),
        )
        store = Database(Path(":memory:"), alone=True)
        evaluator = Evaluator(
            harness=CountingHarness(
                turns=self.turns,
                own_tools=self.in_agent,
                tasks=tasks,
                counter=counter,
                judged=job.benchmark if job.judge else None,
                judge_tokens=self.replies.get("judge") or 0,
            ),
            model=CountingTarget(
                counter=counter,
                rules=_rules_of(job.target),
                reply_tokens=self.replies["target"],
                carried_tokens=self.carried_tokens,
            ),
            benchmark=tasks,
            rollouts=store,
            workers=job.config.env.workers,
            max_tokens=job.target.max_tokens,
        )
        rules = _rules_of(job.optimizer)
        optimizer = CountingOptimizer(
            counter=counter,
            rules=replace(rules, harm=1.0) if luck == "much harm" else rules,
            reply_tokens=self.replies["optimizer"],
            finds_nothing=luck == "nothing found",
        )
        skills = SkillStore.in_memory()
        trainer = trainer_from(
            rehearsed,
            evaluator=evaluator,
            optimizer=optimizer,
            rewriter=None,
            proposer=None
            if job.config.train.proposer == "analysts"
            else CountingProposer(
                counter=counter,
                optimizer=optimizer,
                turns=TURNS if job.proposer is not None else 1,
                turn_tokens=AGENT_TOKENS if job.proposer is not None else 0,
            ),
            ledger=Ledger(Budget(), store),
            log=_Log(counter),
            skills=skills,
        )
        fitted = await trainer.fit(rehearsed.skill)
        return Rehearsed(stages=counter.stages, skill_chars=len(skills.get(fitted.state.best).rendered))

    @property
    def carried_tokens(self) -> float:
        """What every question of the target holds beside its text."""
        images = fmean(len(task.images) for task in self.job.splits.train) * IMAGE_TOKENS
        return images + (AGENT_TOKENS if self.in_agent else 0)


def _part_of(job: Job) -> tuple[Job, Scale]:
    """A job of the same shape that is quick to rehearse, and how much larger the real one is."""
    config, splits = job.config, job.splits
    batch = min(config.train.batch_size * config.train.accumulation, len(splits.train))
    steps = math.ceil(len(splits.train) / batch)
    rehearsed = max(1, min(steps, MOST_STEPS // config.train.num_epochs))
    part = Splits(
        train=splits.train if rehearsed == steps else splits.train[: rehearsed * batch],
        val=splits.val[:MOST_ROWS],
        test=splits.test[:MOST_ROWS],
    )
    scale = Scale(
        train=len(splits.train) / len(part.train),
        steps=steps / rehearsed,
        val=len(splits.val) / len(part.val),
        test=len(splits.test) / max(1, len(part.test)),
    )
    eased = {
        # The rule world answers the standard form; its questions are the longer ones.
        "model.optimizer.prompts": "standard",
        "gate.leak_guard": False,
        **{f"budget.{limit}": None for limit in ("calls", "tokens", "usd", "minutes")},
    }
    return replace(job, config=config.having(eased), division=replace(job.division, splits=part)), scale


def _rules_of(spec: ModelSpec) -> WorldRules:
    """The simulated world's own rules; for a real model those of a target that seldom errs not at all."""
    return world_of(spec).rules if spec.provider == "world" else WorldRules(noise=REAL_NOISE)


class _Log:
    """The run as the trainer sees it: it has no past."""

    def __init__(self, counter: CallCounter) -> None:
        self.emit = counter.emit

    def last_checkpoint(self) -> None:
        return None

    def checkpoint(self, id: str) -> Checkpoint:
        raise LookupError(id)

    def memory(self) -> tuple[MemoryEntry, ...]:
        return ()

    def handed_over(self) -> None:
        return None

    def looks(self, other_than: str) -> int:
        return 0
