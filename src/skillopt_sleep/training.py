"""What a night does for one skill: training, saved at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skillopt import run
from skillopt.agents import is_memory_file
from skillopt.errors import BudgetSpent, UsageError
from skillopt.events import Sink
from skillopt.run import Job, OpenRun, open_run
from skillopt.skill.document import unpack
from skillopt.skill.paths import SKILL_FILE
from skillopt_sleep.context import NightContext
from skillopt_sleep.job import NightJobs, cost_of
from skillopt_sleep.outcome import outcome_of
from skillopt_sleep.plan import NightPlan, NightTarget, SkillOutcome, total_cost
from skillopt_sleep.proposal import Cost, DraftStep, Judgement, TargetDraft, proposed

UNMEASURED, REFUSED = "not measured", "refused"
"""Actions beside the gate's: nothing was measured, or what it accepted may not be staged."""


class NightObserver(Protocol):
    """Follows a night: what it does before its runs, and the runs while they train."""

    def say(self, doing: str) -> None:
        """What the night begins to do, in a line."""
        ...

    def sinks(self, job: Job) -> Sequence[Sink]:
        """Who hears the events of a run."""
        ...

    def during(self, opened: OpenRun) -> AbstractContextManager[None]:
        """Held while a run trains; a signal may stop it from here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NightTraining:
    """The work on the skills of a night; what is done is in the night's folder and is not done again."""

    context: NightContext
    jobs: NightJobs
    observer: NightObserver | None = None

    async def train(self, night: NightPlan, place: int) -> NightPlan:
        """The night with the skill's outcome."""
        target = night.targets[place]
        if target.outcome is not None:
            return night
        outcome = self._proposable(target, await self._trained(night, place))
        done = target.model_copy(update={"outcome": outcome})
        targets = (*night.targets[:place], done, *night.targets[place + 1 :])
        notes = (*night.notes, *(f"{target.name}: {note}" for note in outcome.notes))
        night = night.model_copy(update={"targets": targets, "notes": notes})
        night.save(self._folder(night))
        return night

    async def _trained(self, night: NightPlan, place: int) -> SkillOutcome:
        target, observer = night.targets[place], self.observer
        if part := self.jobs.spent_part(night.spent):
            return _unmeasured(f"Tonight's {part} were spent before it was this skill's turn.")
        job = self.jobs.job(target, advice=night.advice, spent=night.spent)
        sinks = () if observer is None else observer.sinks(job)
        folder = self._folder(night) / f"{place + 1:02d}-{target.name}"
        async with open_run(job, folder, sinks=sinks) as opened:
            try:
                with nullcontext() if observer is None else observer.during(opened):
                    result = await run.train(opened)
            except BudgetSpent as error:
                # Its rollouts are in the project's shared cache, so that another night goes on from them.
                why = f"Tonight's allowance did not pay for measuring the skill as it is. {error}"
                return _unmeasured(why, cost_of(opened))
            return outcome_of(opened, result, target)

    def _proposable(self, target: NightTarget, outcome: SkillOutcome) -> SkillOutcome:
        """The outcome, without its edits where they cannot be staged: other skills of the night can."""
        if not outcome.edits:
            return outcome
        try:
            proposed(drafts_of(target, outcome), self.context.places.roots, is_memory_file)
        except UsageError as error:
            why = f"What was learned may not be proposed. {error}"
            judged = outcome.judgement.model_copy(update={"action": REFUSED, "why": why})
            rejected = outcome.rejected + len(outcome.edits)
            return outcome.model_copy(
                update={"claim": why, "judgement": judged, "edits": (), "rejected": rejected}
            )
        return outcome

    def _folder(self, night: NightPlan) -> Path:
        return self.context.kept.night(night.number)


def drafts_of(target: NightTarget, outcome: SkillOutcome) -> list[TargetDraft]:
    """What is handed in for one skill: a draft of each file that changes."""
    if target.kind == "memory":
        return [_draft(target, outcome, target.path, target.before, outcome.edits)]
    after = [(edit, unpack(edit.text)) for edit in outcome.edits]
    drafts = []
    for name in (SKILL_FILE, *sorted({path for _, (_, files) in after for path in files})):
        before = target.before if name == SKILL_FILE else target.files.get(name)
        steps, last = [], before
        for edit, (main, files) in after:
            text = main if name == SKILL_FILE else files.get(name)
            if text is not None and text != last:
                steps.append(DraftStep(text=text, evidence=edit.evidence))
                last = text
        if last != before:
            path = target.path if name == SKILL_FILE else target.path.parent / name
            drafts.append(_draft(target, outcome, path, before, steps))
    return drafts


def _draft(
    target: NightTarget, outcome: SkillOutcome, path: Path, before: str | None, steps: Sequence[DraftStep]
) -> TargetDraft:
    is_other = path != target.path
    return TargetDraft(
        name=f"{target.name}/{path.relative_to(target.path.parent).as_posix()}" if is_other else target.name,
        kind=target.kind,
        path=path,
        before=before,
        steps=steps,
        judgement=outcome.judgement,
    )


def _unmeasured(why: str, cost: Cost | None = None) -> SkillOutcome:
    judged = Judgement(action=UNMEASURED, verified=False, why=why)
    return SkillOutcome(claim=why, judgement=judged, cost=cost or total_cost(()))
