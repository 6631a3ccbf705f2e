"""What a night does for one skill: decides when variants are made and the skill is trained, and pins each as
soon as it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skillopt import api
from skillopt.build import Engine, Job
from skillopt.changes.proposal import Cost, DraftStep, Judgement, TargetDraft, proposed
from skillopt.errors import BudgetSpent, UsageError
from skillopt.events import Sink
from skillopt.night import tonight as pinned
from skillopt.night.dreams import SHARE, dreamt
from skillopt.night.gather import Around, mine_settings
from skillopt.night.job import is_spent, job_of
from skillopt.night.proof import outcome_of
from skillopt.night.recall import earlier_groups, held_out_forms
from skillopt.night.roles import Roles
from skillopt.night.state import ProjectHome
from skillopt.night.tonight import Dreams, Group, Outcome, Tonight

UNMEASURED, REFUSED = "not measured", "refused"
"""Actions of a skill that the gate did not decide about: nothing was measured, or what it accepted may not be
staged.
"""


class Watcher(Protocol):
    """Somebody who looks on while a night trains."""

    def sinks(self, job: Job) -> Sequence[Sink]:
        """Who hears the events of a run."""
        ...

    def during(self, engine: Engine) -> AbstractContextManager[None]:
        """Held while a run trains; a signal may stop the engine from here."""
        ...


class Nobody:
    """A night that nobody looks at."""

    def sinks(self, job: Job) -> Sequence[Sink]:
        """None."""
        return ()

    def during(self, engine: Engine) -> AbstractContextManager[None]:
        """Nothing is held."""
        return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A night at work; what is done is done in the night's folder and not again."""

    around: Around
    roles: Roles
    kept: ProjectHome
    environ: Mapping[str, str]
    watcher: Watcher

    async def dream(self, night: Tonight, place: int) -> Tonight:
        """The night with variants of the skill's train tasks, where they are wanted and the allowance has
        something left.
        """
        group, settings = night.groups[place], self.around.settings
        if (
            not settings.dream_factor
            or group.dreams is not None
            or group.outcome is not None
            or is_spent(settings, night.spent)
        ):
            return night
        held_out = held_out_forms([*earlier_groups(self.kept, night.number), *night.groups])
        made = await dreamt(
            group,
            self._job(night, group, share=SHARE),
            Path(f"{self._folder(night, place)}-dreams"),
            factor=settings.dream_factor,
            splits=mine_settings(settings),
            held_out=held_out,
        )
        assert made.dreams is not None, "whoever dreamt has something to tell"
        return self._pinned(night.with_group(place, made, [_told(made.dreams)]))

    async def train(self, night: Tonight, place: int) -> Tonight:
        """The night with the skill's outcome."""
        group = night.groups[place]
        if group.outcome is not None:
            return night
        return self._pinned(night.with_outcome(place, await self._trained(night, place, group)))

    async def _trained(self, night: Tonight, place: int, group: Group) -> Outcome:
        if used_up := is_spent(self.around.settings, night.spent):
            return _unmeasured(f"Tonight's {used_up} were spent before it was this skill's turn.")
        job = self._job(night, group)
        async with Engine(job, self._folder(night, place), sinks=self.watcher.sinks(job)) as engine:
            try:
                with self.watcher.during(engine):
                    result = await api.train(engine)
            except BudgetSpent as error:
                # Its rollouts are in the project's shared cache, so that another night goes on from them.
                paid = engine.spending()
                cost = Cost(
                    calls=paid["calls"],
                    tokens=paid["tokens"],
                    dollars=paid["usd"],
                    minutes=round(engine.seconds / 60, 2),
                )
                return _unmeasured(
                    f"Tonight's allowance did not pay for measuring the skill as it is. {error}", cost
                )
            return self._proposable(group, outcome_of(engine, result, group))

    def _proposable(self, group: Group, outcome: Outcome) -> Outcome:
        """The outcome; without its changes where they could not be staged, so that the other skills of the
        night are not lost with them.
        """
        if not outcome.changes:
            return outcome
        try:
            proposed([draft_of(group, outcome)], self.around.ground.roots)
        except UsageError as error:
            why = f"What was learned may not be proposed. {error}"
            judged = outcome.judgement.model_copy(update={"action": REFUSED, "why": why})
            rejected = outcome.rejected + len(outcome.changes)
            return outcome.model_copy(
                update={"claim": why, "judgement": judged, "changes": (), "rejected": rejected}
            )
        return outcome

    def _job(self, night: Tonight, group: Group, *, share: int = 1) -> Job:
        return job_of(
            group,
            self.around.settings,
            self.roles,
            advice=night.advice,
            spent=night.spent,
            rollouts=self.kept.rollouts,
            environ=self.environ,
            cwd=self.around.project,
            share=share,
        )

    def _folder(self, night: Tonight, place: int) -> Path:
        return self.kept.night(night.number) / f"{place + 1:02d}-{night.groups[place].name}"

    def _pinned(self, night: Tonight) -> Tonight:
        pinned.save(night, self.kept.night(night.number))
        return night


def draft_of(group: Group, outcome: Outcome) -> TargetDraft:
    """What is handed in for one skill."""
    return TargetDraft(
        name=group.name,
        kind=group.kind,
        path=Path(group.path),
        before=group.before,
        steps=[DraftStep(text=change.text, evidence=change.evidence) for change in outcome.changes],
        judgement=outcome.judgement,
    )


def _told(dreams: Dreams) -> str:
    left = "; ".join(f"{count} {reason}" for reason, count in dreams.dropped.items())
    return f"{dreams.kept} variants of {dreams.of} train tasks are learned from too" + (
        f" (left out: {left})." if left else "."
    )


def _unmeasured(why: str, cost: Cost | None = None) -> Outcome:
    nothing = Cost(calls=0, tokens=0, dollars=0.0, minutes=0.0)
    return Outcome(
        claim=why, judgement=Judgement(action=UNMEASURED, verified=False, why=why), cost=cost or nothing
    )
