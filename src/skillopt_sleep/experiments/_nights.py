"""Nights in a row on fixed tasks: each is the ordinary run of a night, and starts from the skill that the
night before ended with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt import api
from skillopt.build import Engine, Job
from skillopt.changes.proposal import Cost
from skillopt.errors import BudgetSpent
from skillopt.events import Event
from skillopt.events.records import StepRecord
from skillopt.night import Roles, SleepSettings
from skillopt.night.job import advice_of, is_spent, job_of
from skillopt.night.tonight import Group, PinnedTask, total
from skillopt.runs.folder import open_run
from skillopt.skill.store import Skills
from skillopt.tasks.task import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be learned: a skill and tasks with checks, each in its split."""

    name: str
    skill: str
    tasks: tuple[PinnedTask, ...]

    def of_split(self, split: Split) -> tuple[PinnedTask, ...]:
        """The tasks of a split."""
        return tuple(task for task in self.tasks if task.split == split)

    def limited(self, **most: int | None) -> Work:
        """No more tasks of a split than said; None is all."""
        kept = [
            task for split in ("train", "val", "test") for task in self.of_split(split)[: most.get(split)]
        ]
        return Work(name=self.name, skill=self.skill, tasks=tuple(kept))

    def group(self, skill: str) -> Group:
        """As a night has it, starting from that text."""
        return Group(name=self.name, path=f"{self.name}/SKILL.md", before=skill, seed=skill, tasks=self.tasks)


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
    work: Work,
    settings: SleepSettings,
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
        spent = total(night.cost for night in done)
        if used_up := is_spent(settings, spent):
            raise BudgetSpent(
                f"The {used_up} were spent after night {number - 1}. Raise the budget and run the same"
                " command again."
            )
        night = await _night(work, number, skill, settings, roles, spent, out)
        done.append(night)
        told(night)
        skill = night.after
        if night.is_cut_short or (night.gate_on and night.val[1] == 1.0):
            break  # nothing is left to spend, or nothing can be better
    return done


def _job(
    work: Work, number: int, skill: str, settings: SleepSettings, roles: Roles, spent: Cost, out: Path
) -> Job:
    """Made by the same function as the jobs of `skillopt sleep run`. Each night has another seed: the same
    tasks in other batches.
    """
    out.mkdir(parents=True, exist_ok=True)
    settings = settings.model_copy(update={"seed": settings.seed + number - 1})
    return job_of(
        work.group(skill),
        settings,
        roles,
        advice=advice_of(settings, ()),
        spent=spent,
        rollouts=out / "rollouts.db",
        environ=os.environ,
        cwd=Path.cwd(),
    )


async def _night(
    work: Work, number: int, skill: str, settings: SleepSettings, roles: Roles, spent: Cost, out: Path
) -> Night:
    job = _job(work, number, skill, settings, roles, spent, out)
    folder = out / f"night-{number}"
    async with Engine(job, folder) as engine:
        result = await api.train(engine)
        minutes = round(engine.seconds / 60, 2)
    view = open_run(folder)
    assert view.state is not None, "a run that gave a result has a state"
    paid = result.summary["spending"]
    gate_on = settings.gate_mode == "on"
    return Night(
        number=number,
        folder=folder,
        before=skill,
        after=result.best_skill if gate_on else view.skills.get(view.state.skill).rendered,
        gate_on=gate_on,
        cost=Cost(calls=paid["calls"], tokens=paid["tokens"], dollars=paid["usd"], minutes=minutes),
        claim=result.claim,
        summary=result.summary,
        events=view.events,
        skills=view.skills,
        steps=view.steps,
    )
