"""A night: decides what tonight's run is, carries it out with the one engine skill after skill, and stages what came of it.

A night that was stopped - by a signal, an outage, a crash, or questions that wait for an answer - stays open, and the same command goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from skillopt import api
from skillopt.build import Engine, Job
from skillopt.errors import BudgetSpent, UsageError
from skillopt.events import Sink
from skillopt.nights import tonight as pinned
from skillopt.nights.gather import Around, gather, since_of
from skillopt.nights.job import advice_of, allowance, is_spent, job_of, terms_of
from skillopt.nights.proof import outcome_of
from skillopt.nights.recall import earlier_groups, recalled
from skillopt.nights.roles import Roles
from skillopt.nights.state import NightRecord, ProjectHome, ProjectState
from skillopt.nights.targets import live_text
from skillopt.nights.tonight import Group, Outcome, Tonight
from skillopt.sleep._status import decisions
from skillopt.sleep.proposal import Cost, Draft, Judgement, Proposal, Step


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
class Ended:
    """How a night ended: its record, each skill with its outcome, and the proposal, where there is one."""

    record: NightRecord
    tonight: Tonight
    proposal: Proposal | None
    resumed: bool


async def run_night(
    around: Around,
    roles: Roles,
    *,
    environ: Mapping[str, str],
    now: Callable[[], datetime],
    watcher: Watcher | None = None,
    restart: bool = False,
) -> Ended:
    """Run tonight's night, or go on with one that is open (`restart` leaves that one and begins anew).

    Raises `RunConflict` while another night of the project runs, and what stops a training run; the night then stays open.
    """
    watcher = watcher or Nobody()
    around = replace(around, settings=allowance(around.settings, roles))
    kept = around.home.project(around.project)
    terms = terms_of(around.settings, roles)
    with kept.alone():
        state = kept.load()
        night = None if restart or state.open is None else _reopened(around, kept, state.open, terms)
        resumed = night is not None
        if night is None:
            night = await _begin(around, kept, state, now(), terms)
            state = state.model_copy(update={"night": night.number, "open": night.number})
            kept.save(state)
        for place, group in enumerate(night.groups):
            if group.outcome is None:
                outcome = await _train(night, place, group, around, roles, kept, environ, watcher)
                night = night.with_outcome(place, outcome)
                pinned.save(night, kept.night(night.number))
        proposal = _stage(night, around, now())
        record = _record(night, proposal, now())
        nights = (*state.nights, record)
        kept.save(state.model_copy(update={"open": None, "nights": nights, "next_since": night.next_since or state.next_since}))
    return Ended(record=record, tonight=night, proposal=proposal, resumed=resumed)


async def _begin(around: Around, kept: ProjectHome, state: ProjectState, now: datetime, terms: str) -> Tonight:
    """Read, mine and pin what the night works on."""
    gathered = await gather(around, since_of(around.settings, now, state.next_since))
    groups = [Group.of(aim) for aim in gathered.aims]
    if around.settings.recall_k:
        earlier = earlier_groups(kept, state.night + 1)
        groups = [recalled(group, earlier, around.settings.recall_k) for group in groups]
    night = Tonight(
        number=state.night + 1,
        started=now,
        sessions=len(gathered.sessions),
        next_since=gathered.harvest.next_since,
        terms=terms,
        advice=advice_of(around.settings, decisions(around.home.store, str(around.project))),
        groups=tuple(groups),
        notes=(gathered.mined.note, *gathered.notes, *gathered.harvest.notes),
        suggestions=len(gathered.mined.suggestions),
    )
    pinned.save(night, kept.night(night.number))
    return night


def _reopened(around: Around, kept: ProjectHome, number: int, terms: str) -> Tonight | None:
    """The open night; None when it was begun with other models or settings, or a skill it works on was edited meanwhile.

    What it would prove then is about a run or a text that is gone.
    """
    night = pinned.load(kept.night(number))
    if night.terms != terms:
        return None
    roots = around.ground.roots
    return night if all(live_text(Path(group.path), roots) == group.before for group in night.groups) else None


async def _train(
    night: Tonight,
    place: int,
    group: Group,
    around: Around,
    roles: Roles,
    kept: ProjectHome,
    environ: Mapping[str, str],
    watcher: Watcher,
) -> Outcome:
    spent = pinned.total(other.outcome.cost for other in night.groups if other.outcome is not None)
    if used_up := is_spent(around.settings, spent):
        return _unmeasured(f"Tonight's {used_up} were spent before it was this skill's turn.")
    job = job_of(
        group,
        around.settings,
        roles,
        advice=night.advice,
        spent=spent,
        rollouts=kept.rollouts,
        environ=environ,
        cwd=around.project,
    )
    async with Engine(job, kept.night(night.number) / f"{place + 1:02d}-{group.name}", sinks=watcher.sinks(job)) as engine:
        try:
            with watcher.during(engine):
                result = await api.train(engine)
        except BudgetSpent as error:
            # Its rollouts are in the project's shared cache, so that another night goes on from them.
            paid = engine.spending()
            cost = Cost(calls=paid["calls"], tokens=paid["tokens"], dollars=paid["usd"], minutes=round(engine.seconds / 60, 2))
            return _unmeasured(f"Tonight's allowance did not pay for measuring the skill as it is. {error}", cost)
        return outcome_of(engine, result, group)


def _unmeasured(why: str, cost: Cost | None = None) -> Outcome:
    nothing = Cost(calls=0, tokens=0, dollars=0.0, minutes=0.0)
    return Outcome(claim=why, judgement=Judgement(action="not measured", verified=False, why=why), cost=cost or nothing)


def _stage(night: Tonight, around: Around, now: datetime) -> Proposal | None:
    """The proposal of all skills that got better; the one that is there already, where a crash came between staging and the record."""
    done = [(group, group.outcome) for group in night.groups if group.outcome is not None and group.outcome.changes]
    if not done:
        return None
    store, name = around.home.store, _name(night)
    for id in store.ids():
        try:
            earlier = store.load(id)
        except UsageError:  # not the user's, or not readable; `status` names it
            continue
        if (earlier.night, earlier.project) == (name, str(around.project)):
            return earlier
    drafts = [
        Draft(
            name=group.name,
            kind=group.kind,
            path=Path(group.path),
            before=group.before,
            steps=[Step(text=change.text, evidence=change.evidence) for change in outcome.changes],
            judgement=outcome.judgement,
        )
        for group, outcome in done
    ]
    notes = [*(f"{group.name}: {outcome.claim}" for group, outcome in done), *night.notes]
    cost = pinned.total(group.outcome.cost for group in night.groups if group.outcome is not None)
    return store.stage(drafts, roots=around.ground.roots, project=str(around.project), night=name, now=now, cost=cost, notes=notes)


def _record(night: Tonight, proposal: Proposal | None, now: datetime) -> NightRecord:
    cost = pinned.total(group.outcome.cost for group in night.groups if group.outcome is not None)
    if not night.groups:
        outcome = f"nothing to learn from: {night.notes[0]}"
    elif proposal is None:
        outcome = "no change was found that the held-out tasks agree to"
    else:
        outcome = f"proposes changes to {', '.join(target.name for target in proposal.targets)}"
    return NightRecord(
        number=night.number,
        started=night.started,
        ended=now,
        sessions=night.sessions,
        tasks=night.tasks,
        outcome=outcome,
        proposal=None if proposal is None else proposal.id,
        tokens=cost.tokens,
        dollars=cost.dollars,
    )


def _name(night: Tonight) -> str:
    return f"night-{night.number}-{night.started:%Y%m%dT%H%M%S}"
