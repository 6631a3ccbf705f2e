"""Outcome tables, run through the real gate and evaluator."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillopt.config.schema import EvaluationConfig, GateConfig
from skillopt.errors import Fault
from skillopt.evaluation.runner import Evaluator, PlannedRow
from skillopt.events import Event
from skillopt.gate.decision import value
from skillopt.gate.gate import Gate, SkillMeasurement, Verdict
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task
from steps import step_at


class Memory:
    """The evaluator's store, in dictionaries."""

    def __init__(self) -> None:
        self.done: dict[str, tuple[int, Trajectory]] = {}
        self.scores: dict[tuple[str, int, str], Score] = {}
        self.invalid: dict[str, int] = {}

    def finished(self, rollout):
        return self.done.get(rollout)

    def next_attempt(self, rollout):
        return self.invalid.get(rollout, -1) + 1

    def keep(self, rollout, attempt, trajectory):
        self.done[rollout] = (attempt, trajectory)

    def scored(self, rollout, scorer):
        attempt, trajectory = self.done.get(rollout, (0, None))
        score = self.scores.get((rollout, attempt, scorer))
        return None if score is None else (attempt, trajectory, score)

    def keep_score(self, rollout, attempt, scorer, score):
        self.scores[rollout, attempt, scorer] = score

    def closed_invalid(self, stage, rollout):
        return None

    def close_invalid(self, stage, rows):
        for rollout, row in rows:
            self.invalid[rollout] = max(row.attempt, self.invalid.get(rollout, -1))


@dataclass
class Table:
    """What each row gives on its first and second attempt; None is an invalid attempt. It is model, harness
    and benchmark in one.
    """

    cells: Mapping[tuple[str, int], tuple[Score | None, Score | None]]
    rng: random.Random
    asked: list[tuple[str, int]] = field(default_factory=list)

    name = "table"
    version = "1"
    endpoint = "table"
    fingerprint = {"provider": "table"}
    prompts = {"rollout": "{skill}"}
    scorer_version = "1"
    graded = False
    seed_skill = ""

    def open(self, task):
        return None

    async def run(self, task, environment, skill, prompts, session):
        draw, attempt = session.draw, session.attempt
        self.asked.append((task.id, draw))
        for _ in range(self.rng.randrange(12)):
            await asyncio.sleep(0)
        cell = self.cells[task.id, draw][min(attempt, 1)]
        if cell is None:
            raise Fault("parse", "this attempt is invalid by plan")
        return Trajectory(messages=(), answer=f"{cell.hard} {cell.soft}", calls=1, usage=None)

    async def score(self, task, trajectory):
        hard, soft = trajectory.answer.split()
        return Score(hard=float(hard), soft=float(soft))


def judge(
    incumbent: Mapping[tuple[str, int], Score],
    table: Table,
    *,
    metric: str,
    weight: float,
    ahead: int,
    is_on: bool = True,
    in_full: bool = False,
    candidate: str = "new",
    first_draws: int | None = None,
    **settings: Any,
) -> tuple[Verdict, list[Event]]:
    """The real gate on a table. Of the incumbent's draws the gate is told the first ones; the policy adds the
    others.
    """

    async def run() -> tuple[Verdict, list[Event]]:
        events: list[Event] = []
        evaluator = Evaluator(
            harness=table,
            model=table,
            benchmark=table,
            rollouts=Memory(),
            workers=ahead,
            max_tokens=1,
        )
        tasks = {task: Task(id=task, prompt=f"question {task}") for task, _ in incumbent}
        rows = [
            PlannedRow(task=tasks[task], draw=draw)
            for task, draw in incumbent
            if first_draws is None or draw < first_draws
        ]
        about = {name: settings.pop(name) for name in ("rule", "seed_chars", "targets") if name in settings}
        evaluation = EvaluationConfig(gate_metric=metric, gate_mixed_weight=weight, use_gate=is_on)
        gate = Gate(evaluator, rows, GateConfig(**settings), evaluation, **about)
        values = {row: value(score, metric, weight) for row, score in incumbent.items()}
        assert set(gate.rows) == set(values)
        measured = SkillMeasurement(skill="old skill", values=values, hard=0.0, soft=0.0)
        verdict = await gate.judge(step_at("e1/s1", events), candidate, measured, in_full=in_full)
        await asyncio.sleep(0)
        return verdict, events

    return asyncio.run(run())
