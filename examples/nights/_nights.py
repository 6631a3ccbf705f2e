"""Nights in a row on fixed tasks: each is the ordinary run of a night, and starts from the skill that the
night before ended with.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.errors import BudgetSpent
from skillopt.events import Event
from skillopt.run import Job, Result, open_run, train
from skillopt.runs.log import DATABASE
from skillopt.runs.tail import StoredTexts
from skillopt.skill.store import Skills
from skillopt.tasks.task import SPLITS, Split
from skillopt_sleep import NightSettings, Roles
from skillopt_sleep.job import NightJobs, advice_of, cost_of
from skillopt_sleep.judgement import Cost, total_cost
from skillopt_sleep.plan import NightTarget
from skillopt_sleep.tasks import NightTask


def work_on(name: str, skill: str, tasks: Iterable[NightTask]) -> NightTarget:
    """What is to be learned, as a night has it: a skill, and tasks with checks, each in its split."""
    return NightTarget(name=name, path=Path(name, "SKILL.md"), before=skill, seed=skill, tasks=tuple(tasks))


def limited(work: NightTarget, **most: int | None) -> NightTarget:
    """No more tasks of a split than said; None is all."""
    kept = (
        task
        for split in SPLITS
        for task in [one for one in work.tasks if one.split == split][: most.get(split)]
    )
    return work.model_copy(update={"tasks": tuple(kept)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One night as it ended. `after` is the text the next night starts from."""

    number: int
    after: str
    gate_on: bool
    cost: Cost
    result: Result = field(repr=False)
    events: Sequence[Event] = field(repr=False)
    skills: Skills = field(repr=False)
    """The skills that the events name; read from the folder."""

    @property
    def val(self) -> tuple[float, float | None]:
        """What the gate read of the skill before and after."""
        s = self.result.summary
        return s["baseline_selection_hard"], (
            s["best_selection_hard"] if self.gate_on else s["final_selection_hard"]
        )

    @property
    def holdout(self) -> tuple[float | None, float | None]:
        """The sealed tasks with the skill before and after; None where they were not measured."""
        s = self.result.summary
        return s["baseline_test_hard"], s["test_hard"] if self.gate_on else s["final_test_hard"]

    @property
    def is_cut_short(self) -> bool:
        """The allowance ended it before its plan did."""
        return self.result.status == "budget"

    def as_json(self) -> dict[str, Any]:
        """A row of the trace."""
        about = ("step", "action", "selection_rows", "selection_rows_total", "edit_states", "why")
        return {
            "night": self.number,
            "status": self.result.status,
            "verified": self.result.summary["verified"],
            **dict(zip(("val_before", "val_after"), self.val, strict=True)),
            **dict(zip(("holdout_before", "holdout_after"), self.holdout, strict=True)),
            "tokens": self.cost.tokens,
            "claim": self.result.claim,
            "steps": [{name: getattr(step, name) for name in about} for step in self.result.steps],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NightsInARow:
    """What nights on the same tasks came to."""

    work: NightTarget
    nights: Sequence[Night]

    @property
    def holdout(self) -> tuple[float | None, float | None]:
        """The sealed tasks with the first skill and with the last."""
        return self.nights[0].holdout[0], self.nights[-1].holdout[1]

    @property
    def lift(self) -> float | None:
        """How much the held-out score rose; None where it was not measured."""
        before, after = self.holdout
        return None if before is None or after is None else after - before

    @property
    def cost(self) -> Cost:
        """What all of them took."""
        return total_cost(night.cost for night in self.nights)

    def size(self, split: Split) -> int:
        """How many tasks of a split there are."""
        return len(self.work.of_split(split))

    def as_json(self) -> dict[str, Any]:
        """What every experiment says of its nights."""
        return {
            "n_holdout": self.size("test"),
            "nights_run": len(self.nights),
            **dict(zip(("baseline_holdout", "after_holdout"), self.holdout, strict=True)),
            "lift": self.lift,
            "tokens_used": self.cost.tokens,
            "trace": [night.as_json() for night in self.nights],
        }


async def run_nights(
    work: NightTarget,
    settings: NightSettings,
    roles: Roles,
    *,
    nights: int,
    out: Path,
    told: Callable[[Night], None] = lambda night: None,
) -> list[Night]:
    """Up to `nights` nights, fewer where the gate can agree to nothing better. All of them share one
    allowance and their rollouts.

    Each lies in a run folder of its own below `out`; the same call goes on where an earlier one was stopped.
    """
    done: list[Night] = []
    await asyncio.to_thread(out.mkdir, parents=True, exist_ok=True)
    for number in range(1, nights + 1):
        # Each night has another seed: the same tasks in other batches.
        jobs = NightJobs(
            settings=settings.model_copy(update={"seed": settings.seed + number - 1}),
            roles=roles,
            rollouts=out / "rollouts.db",
            environ=os.environ,
            cwd=Path.cwd(),
        )
        spent = total_cost(night.cost for night in done)
        if part := jobs.spent_part(spent):
            raise BudgetSpent(
                f"The {part} were spent after night {number - 1}. Raise the budget and run the same command"
                " again."
            )
        job = jobs.job(work, advice=advice_of(settings, ()), spent=spent)
        evaluation = job.config.evaluation.model_copy(
            update={"eval_test": True}
        )  # every night is a point of a curve
        job = replace(job, config=job.config.model_copy(update={"evaluation": evaluation}))
        night = await _night(job, number, out / f"night-{number}")
        done.append(night)
        told(night)
        work = work.model_copy(update={"before": night.after, "seed": night.after})
        if night.is_cut_short or (night.gate_on and night.val[1] == 1.0):
            break  # nothing is left to spend, or nothing can be better
    return done


async def _night(job: Job, number: int, folder: Path) -> Night:
    async with open_run(job, folder) as opened:
        result = await train(opened)
        cost, events = cost_of(opened), tuple(opened.run.history())
    skills, gate_on = Skills(StoredTexts(folder / DATABASE)), job.config.evaluation.use_gate
    after = result.best_skill if gate_on else skills.get(result.state.skill).rendered
    return Night(
        number=number, after=after, gate_on=gate_on, cost=cost, result=result, events=events, skills=skills
    )
