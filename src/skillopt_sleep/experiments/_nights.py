"""Nights in a row on fixed tasks: each is the ordinary run of a night, and starts from the skill that the
night before ended with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt import api
from skillopt.build import Job, open_run
from skillopt.changes.proposal import Cost
from skillopt.errors import BudgetSpent
from skillopt.events import Event
from skillopt.events.records import StepRecord
from skillopt.night import NightSettings, Roles
from skillopt.night.job import NightJobs, advice_of, cost_of
from skillopt.night.plan import NightTarget, total_cost
from skillopt.night.tasks import NightTask
from skillopt.runs.log import DATABASE
from skillopt.runs.stored import StoredTexts
from skillopt.skill.store import Skills
from skillopt.tasks.task import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSkill:
    """What is to be learned: a skill and tasks with checks, each in its split."""

    name: str
    skill: str
    tasks: tuple[NightTask, ...]

    def of_split(self, split: Split) -> tuple[NightTask, ...]:
        """The tasks of a split."""
        return tuple(task for task in self.tasks if task.split == split)

    def limited(self, **most: int | None) -> ExperimentSkill:
        """No more tasks of a split than said; None is all."""
        kept = [
            task for split in ("train", "val", "test") for task in self.of_split(split)[: most.get(split)]
        ]
        return ExperimentSkill(name=self.name, skill=self.skill, tasks=tuple(kept))

    def target(self, skill: str) -> NightTarget:
        """As a night has it, starting from that text."""
        return NightTarget(
            name=self.name, path=Path(self.name, "SKILL.md"), before=skill, seed=skill, tasks=self.tasks
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One night as it ended. `after` is the text the next night starts from."""

    number: int
    folder: Path
    before: str
    after: str
    gate_on: bool
    cost: Cost
    claim: str
    summary: Mapping[str, Any] = field(repr=False)
    events: Sequence[Event] = field(repr=False)
    skills: Skills = field(repr=False)
    """The skills that the events name; read from the folder."""
    steps: Sequence[StepRecord] = field(repr=False)

    @property
    def val(self) -> tuple[float, float | None]:
        """What the gate read of the skill before and after."""
        s = self.summary
        return s["baseline_selection_hard"], (
            s["best_selection_hard"] if self.gate_on else s["final_selection_hard"]
        )

    @property
    def holdout(self) -> tuple[float | None, float | None]:
        """The sealed tasks with the skill before and after; None where they were not measured."""
        s = self.summary
        return s["baseline_test_hard"], s["test_hard"] if self.gate_on else s["final_test_hard"]

    @property
    def is_cut_short(self) -> bool:
        """The allowance ended it before its plan did."""
        return bool(self.summary["status"] == "budget")

    def as_json(self) -> dict[str, Any]:
        """A row of the trace."""
        about = ("step", "action", "selection_rows", "selection_rows_total", "edit_states", "why")
        return {
            "night": self.number,
            "status": self.summary["status"],
            "verified": self.summary["verified"],
            "val_before": self.val[0],
            "val_after": self.val[1],
            "holdout_before": self.holdout[0],
            "holdout_after": self.holdout[1],
            "tokens": self.cost.tokens,
            "claim": self.claim,
            "steps": [{name: getattr(step, name) for name in about} for step in self.steps],
        }


async def run_nights(
    work: ExperimentSkill,
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
    skill = work.skill
    for number in range(1, nights + 1):
        jobs = _jobs(settings, roles, number, out)
        spent = total_cost(night.cost for night in done)
        if part := jobs.spent_part(spent):
            raise BudgetSpent(
                f"The {part} were spent after night {number - 1}. Raise the budget and run the same command"
                " again."
            )
        job = jobs.job(work.target(skill), advice=advice_of(settings, ()), spent=spent)
        job = replace(job, opens_test=True)  # every night is a point of a curve
        night = await _night(job, number, skill, out / f"night-{number}")
        done.append(night)
        told(night)
        skill = night.after
        if night.is_cut_short or (night.gate_on and night.val[1] == 1.0):
            break  # nothing is left to spend, or nothing can be better
    return done


def _jobs(settings: NightSettings, roles: Roles, number: int, out: Path) -> NightJobs:
    """Each night has another seed: the same tasks in other batches."""
    out.mkdir(parents=True, exist_ok=True)
    return NightJobs(
        settings=settings.model_copy(update={"seed": settings.seed + number - 1}),
        roles=roles,
        rollouts=out / "rollouts.db",
        environ=os.environ,
        cwd=Path.cwd(),
    )


async def _night(job: Job, number: int, skill: str, folder: Path) -> Night:
    async with open_run(job, folder) as opened:
        result = await api.train(opened)
        cost = cost_of(opened)
        events = tuple(opened.run.history())
    skills = Skills(StoredTexts(folder / DATABASE))
    gate_on = job.config.evaluation.use_gate
    return Night(
        number=number,
        folder=folder,
        before=skill,
        after=result.best_skill if gate_on else skills.get(result.state.skill).rendered,
        gate_on=gate_on,
        cost=cost,
        claim=result.claim,
        summary=result.summary,
        events=events,
        skills=skills,
        steps=result.steps,
    )
