"""How long the questions and replies of a run are, in tokens: its texts as they are, and typical lengths."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from skillopt.agents import driven
from skillopt.errors import ScoringError
from skillopt.evaluation.judge import judge_prompt
from skillopt.harnesses import works_alone
from skillopt.harnesses.port import rollout_prompt, system_prompt
from skillopt.messages import Role
from skillopt.models.port import ModelSpec
from skillopt.optimizer.ask import packaged
from skillopt.run.calls import PartPlan, RolloutShape
from skillopt.run.job import Job
from skillopt.tasks.judge import Finding
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import as_text
from skillopt.tasks.task import Task

CHARS_A_TOKEN = 4
"""Of English text; the providers' own counts are what is paid."""
REPLY_TOKENS: Mapping[Role, int] = {"target": 300, "optimizer": 900, "judge": 120}
"""Replies of real models, where nothing better is known."""
SIMULATED_TOKENS: Mapping[Role, int] = {"target": 6, "optimizer": 110, "judge": 120}
"""Replies of the simulated world."""
EDIT_SHARE = 8
"""An edit takes one part in so many of the reply that proposes it."""
AGENT_TOKENS = 10_000
"""What an agent sends of its own with every turn: its instructions and the descriptions of its tools."""
IMAGE_TOKENS = 1_100
OBSERVED_TOKENS = 500
"""What a turn with tools shows the target."""
GROWN, SMALL_SKILL = 2, 4_000
"""Times the seed, and characters at the least, that the longest skill has: what `size_capped` allows."""
_PROMPTS = {"analyst": ("analyst_failure", "analyst_proof"), "proposer": ("proposer_agent",) * 2}
_TASK_TAGS, _PART_TAGS = 160, 25


@dataclass(frozen=True)
class Lengths:
    """How long the questions and replies of a job are, in tokens: as measured, and at most."""

    job: Job
    replies: Mapping[Role, int]

    @cached_property
    def questions(self) -> list[int]:
        """Characters of each question to the judge about an answer."""
        return _questions_of(self.job, "x" * CHARS_A_TOKEN * self.replies["target"])

    @cached_property
    def part(self) -> PartPlan:
        return PartPlan(self.job, RolloutShape.of(self.job, len(self.questions)))

    @property
    def edit(self) -> int:
        """Characters of an edit."""
        return self.replies["optimizer"] * CHARS_A_TOKEN // EDIT_SHARE

    @property
    def grown(self) -> int:
        """Characters that the skill has at the end."""
        return round(len(self.job.skill.rendered) + self.part.learned * self.edit)

    @property
    def longest(self) -> int:
        """Characters that a skill has at most."""
        return max(SMALL_SKILL, GROWN * len(self.job.skill.rendered))

    def of(self, stage: str, role: Role) -> tuple[float, float, int, int]:
        """Tokens of a call: read and written, as a rule, then at most."""
        spec = self.job.roles[role]
        if role == "target":
            return self._target()
        if role == "judge":
            asked, most = max(self.questions), spec.max_tokens
            return asked / CHARS_A_TOKEN, self.replies["judge"], asked + self.job.target.max_tokens, most
        settings = self.job.config.model
        window, cap = settings.optimizer.context_window, spec.max_tokens
        reply: float = self.replies["optimizer"]
        writes = {"rewrite_from_suggestions": ("rewrite",), "full_rewrite_minibatch": ("analyst", "merge")}
        if stage in writes.get(self.job.config.optimizer.skill_update_mode, ()):
            reply, cap = self.grown / CHARS_A_TOKEN + reply / 2, settings.rewrite_max_completion_tokens
        cap = min(cap, window // 2)
        return min(window - cap, self._question(stage)), min(cap, reply), window - cap, cap

    def _target(self) -> tuple[float, float, int, int]:
        """A rollout's call: every turn carries those before it."""
        job, turns = self.job, self.part.shape.turns
        prompt = rollout_prompt(job.benchmark.prompts, own_tools=works_alone(job.target.harness))
        system = len(system_prompt(prompt, job.skill.rendered)) + (self.grown - len(job.skill.rendered)) / 2
        tasks = job.splits.all
        asked = (system + fmean(len(task.prompt) for task in tasks)) / CHARS_A_TOKEN
        asked += fmean(len(task.images) for task in tasks) * IMAGE_TOKENS
        asked += AGENT_TOKENS * (job.target.harness in driven())
        said = min(job.target.max_tokens, self.replies["target"])
        asked += (turns.typical - 1) / 2 * (said + OBSERVED_TOKENS)
        longest = len(prompt) + self.longest + max(len(task.prompt) for task in tasks)
        most = longest + max(len(task.images) for task in tasks) * IMAGE_TOKENS
        most += round((turns.at_most or 1) - 1) * (job.target.max_tokens + OBSERVED_TOKENS)
        return asked, said, most, job.target.max_tokens

    def _question(self, stage: str) -> float:
        """What the optimizer reads at a stage: the prompt, the skill, rollouts, and proposals."""
        job, config = self.job, self.job.config
        is_proof = config.train.strategy == "proof"
        name = _PROMPTS.get(stage, (stage, stage))[is_proof]
        prompt = job.benchmark.prompts.get(name) or packaged(name)
        skill = (len(job.skill.rendered) + self.grown) / 2
        tasks = [*job.splits.train, *job.splits.val]
        rollout = _TASK_TAGS + CHARS_A_TOKEN * self.replies["target"] * self.part.shape.turns.typical
        rollout += fmean(len(task.prompt) + len(as_text(task.reference or "")) for task in tasks)
        batch, rate = self.part.batch, config.optimizer.learning_rate
        ends = dict.fromkeys(("slow_update", "meta_skill"), self.part.plan.slow_samples)
        rollouts = {**ends, "analyst": min(batch, config.gradient.minibatch_size), "proposer": batch}
        edits = {"merge": 2 * rate, "ranking": 2 * rate, "rewrite": rate, "joining": self.part.learned}
        skills = 2 if stage in ends else 1
        shown = skills * skill + rollouts.get(stage, 0) * rollout + edits.get(stage, 0) * (self.edit + 80)
        is_agent = stage == "proposer" and job.proposer is not None
        return (len(prompt) + shown) / CHARS_A_TOKEN + AGENT_TOKENS * is_agent


def replies_of(roles: Mapping[Role, ModelSpec]) -> dict[Role, int]:
    """Tokens of a reply by role, where nothing better is known."""
    known = {
        role: SIMULATED_TOKENS if spec.provider == "world" else REPLY_TOKENS for role, spec in roles.items()
    }
    return {role: lengths[role] for role, lengths in known.items()}


def _questions_of(job: Job, answer: str) -> list[int]:
    """The characters of every question to a judge about such an answer to the first task."""
    if job.judge is None:
        return []
    judge, task = _ListeningJudge(), job.splits.train[0]
    done = Trajectory(messages=(), answer=answer, calls=1, usage=None, seconds=0.0)

    async def ask() -> None:
        with suppress(ScoringError):  # its questions are counted, whatever comes of them
            await job.benchmark.score_with(judge, task, done)

    # In a thread of its own, as the caller may have an event loop running.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(copy_context().run, asyncio.run, ask()).result()
    return judge.asked


class _ListeningJudge:
    """Notes how long the questions are, and finds nothing."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def check(self, task: Task, trajectory: Trajectory, criteria: Sequence[str]) -> tuple[Finding, ...]:
        """One question about all criteria."""
        reference = "" if task.reference is None else as_text(task.reference)
        self._note("judge", task.prompt, reference, trajectory.answer, *criteria)
        return tuple(Finding(met=False, evidence="") for _ in criteria)

    async def prefer(
        self, task: Task, trajectory: Trajectory, other: str, rubric: str
    ) -> Literal["answer", "other", "tie"]:
        """Two questions, one for each order."""
        for _ in range(2):
            self._note("judge_pair", task.prompt, rubric, trajectory.answer, other)
        return "tie"

    def _note(self, prompt: str, *parts: str) -> None:
        self.asked.append(len(judge_prompt(prompt)) + sum(len(part) + _PART_TAGS for part in parts))
