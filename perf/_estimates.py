"""Estimates a *simulated* run, makes it, and compares: the computation behind `estimates.py` and its test."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import skillopt
from skillopt.events import Event, Spending
from skillopt.messages import Reply, Request
from skillopt.models.providers.world import World
from skillopt.models.world.rules import CASE, SEED_SKILL, WorldRules, code_of, family_of, is_solved

PROOF, PAPER = {"train.strategy": "proof"}, {"train.strategy": "paper"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of run: how many tasks, and what else is set."""

    name: str
    tasks: int
    options: Mapping[str, Any] = field(default_factory=dict)
    scorer: str = "contains"
    target: str = "world:noise=0.05"
    """A model of the world, or `function` for an agent of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: what was estimated before the start and after the baseline, and what it asked."""

    kind: str
    tasks: int
    seed: int
    at_most: float | None
    typical: float
    projected: float
    calls: int
    tokens: int
    typical_tokens: float
    tokens_at_most: float | None

    @property
    def is_bounded(self) -> bool:
        """Whether the bound held; where there is none it was said."""
        calls_hold = self.at_most is None or self.calls <= self.at_most
        return calls_hold and (self.tokens_at_most is None or self.tokens <= self.tokens_at_most)


KINDS = (
    *(
        Kind(name=f"{name}{', cross-fitted' if 10 <= tasks < 60 else ''}", tasks=tasks, options=options)
        for name, options in (("proof", PROOF), ("paper", PAPER))
        for tasks in (5, 9, 12, 20, 40, 60, 100, 150)
    ),
    Kind(name="proof, judged", tasks=60, options=PROOF, scorer="judge"),
    Kind(name="paper, judged", tasks=100, options=PAPER, scorer="judge"),
    Kind(
        name="proof, two targets",
        tasks=60,
        options={**PROOF, "model.targets": "world:noise=0.05,world:noise=0.1"},
    ),
    Kind(name="proof, own agent", tasks=60, options=PROOF, target="function"),
    Kind(
        name="proof, rewriting",
        tasks=100,
        options={**PROOF, "optimizer.skill_update_mode": "full_rewrite_minibatch"},
    ),
    Kind(
        name="paper, suggestions",
        tasks=100,
        options={**PAPER, "optimizer.skill_update_mode": "rewrite_from_suggestions"},
    ),
    Kind(name="paper, pruned", tasks=60, options={**PAPER, "optimizer.prune": True}),
    Kind(name="proof, noisy", tasks=100, options=PROOF, target="world:noise=0.2"),
)


class JudgingOptimizer(World):
    """The optimizer of the rule world, which also judges: a criterion is met where the case's code stands."""

    async def complete(self, request: Request) -> Reply:
        """Judge, or propose as the world does."""
        if request.role != "judge":
            return await super().complete(request)
        asked = request.messages[-1].content
        work = asked.partition("<work>")[2].partition("</work>")[0]
        codes = [code_of(case) for case in CASE.findall(asked)]
        met = any(code in work for code in codes)
        count = len(re.findall(r"^\d+\. ", asked.partition("<criteria>")[2], re.MULTILINE))
        findings = [
            {"criterion": number, "evidence": codes[0] if met else "", "met": met}
            for number in range(1, count + 1)
        ]
        return Reply(text=json.dumps({"findings": findings}), finish="stop", usage=None)


def answer(task: Any, skill: str) -> str:
    """An agent of one's own that works as the world's target does."""
    case = CASE.findall(task.prompt)[0]
    return code_of(case) if is_solved(case, skill) else "unknown"


def run(kind: Kind, seed: int) -> Row:
    """Estimate and train in a folder that is thrown away."""
    names = [f"W{seed % 100:02d}{number:04d}" for number in range(kind.tasks)]
    tasks = [
        {
            "id": name,
            "prompt": f"Case {name}, about {family_of(name)}. What is its code?",
            "reference": code_of(name),
            "kind": family_of(name),
            **({"rubric": ["The code is right"]} if kind.scorer == "judge" else {}),
        }
        for name in names
    ]
    events: list[Event] = []
    optimizer: Any = f"world:harm=0.34,seed={seed}"
    if kind.scorer == "judge":
        optimizer = JudgingOptimizer(WorldRules(harm=0.34, seed=seed))
    target = answer if kind.target == "function" else f"{kind.target},seed={seed}"
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        skill = Path(folder) / "skill.md"
        skill.write_text(SEED_SKILL)
        given: dict[str, Any] = {
            "target": target,
            "optimizer": optimizer,
            "tasks": tasks,
            "scorer": kind.scorer,
            "skill": str(skill),
            "options": dict(kind.options),
        }
        said = skillopt.estimate(**given)
        result = skillopt.optimize(**given, out=f"{folder}/run", on_event=events.append)
    planned = [event.planned for event in events if isinstance(event, Spending) and event.planned]
    spending = result.summary["spending"]
    return Row(
        kind=kind.name,
        tasks=kind.tasks,
        seed=seed,
        at_most=said.calls.at_most,
        typical=said.calls.typical,
        projected=planned[0] if planned else said.calls.typical,
        calls=spending["calls"],
        tokens=spending["tokens"],
        typical_tokens=said.tokens.typical,
        tokens_at_most=said.tokens.at_most,
    )
