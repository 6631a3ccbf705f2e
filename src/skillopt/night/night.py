"""A night: decides what tonight's run is, carries it out with the one engine skill after skill, and stages
what came of it.

A night that was stopped - by a signal, an outage, a crash, or questions that wait for an answer - stays open,
and the same command goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from skillopt.changes.proposal import Proposal, live_text
from skillopt.changes.status import decisions
from skillopt.errors import UsageError
from skillopt.night import tonight as pinned
from skillopt.night.gather import Around, ModelMiner, gather, since_of
from skillopt.night.job import advice_of, allowance, terms_of
from skillopt.night.past import with_past
from skillopt.night.recall import earlier_nights, recalled
from skillopt.night.roles import Roles
from skillopt.night.state import NightRecord, ProjectHome, ProjectState, SkillRow
from skillopt.night.tonight import Group, Tonight
from skillopt.night.variants import with_accepted
from skillopt.night.work import REFUSED, UNMEASURED, Nobody, Watcher, Work, draft_of


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

    Raises `RunConflict` while another night of the project runs, and what stops a training run; the night
    then stays open.
    """
    around = replace(around, settings=allowance(around.settings, roles))
    kept = around.home.project(around.project)
    terms = terms_of(around.settings, roles) + ("" if around.tasks is None else f" {around.tasks.digest}")
    around.home.store.refuse_inside(around.ground.roots)
    with kept.alone():
        state = kept.load()
        night = None if restart or state.open is None else _reopened(around, kept, state.open, terms)
        resumed = night is not None
        if night is None:
            miner = ModelMiner(
                roles=roles, folder=kept.night(state.night + 1), terms=terms, environ=environ, fresh=restart
            )
            night = await _begin(
                around, kept, state, now(), terms, miner if around.settings.llm_mine else None
            )
            state = state.model_copy(update={"night": night.number, "open": night.number})
            kept.save(state)
        work = Work(around=around, roles=roles, kept=kept, environ=environ, watcher=watcher or Nobody())
        for place in range(len(night.groups)):
            night = await work.train(await work.dream(night, place), place)
        proposal = _stage(night, around, now())
        record = _record(night, proposal, now())
        nights = (*state.nights, record)
        kept.save(
            state.model_copy(
                update={"open": None, "nights": nights, "next_since": night.next_since or state.next_since}
            )
        )
    return Ended(record=record, tonight=night, proposal=proposal, resumed=resumed)


async def _begin(
    around: Around,
    kept: ProjectHome,
    state: ProjectState,
    now: datetime,
    terms: str,
    miner: ModelMiner | None,
) -> Tonight:
    """Read, mine and pin what the night works on."""
    gathered = await gather(around, since_of(around.settings, now, state.next_since), miner)
    settings, number = around.settings, state.night + 1
    earlier, decided = earlier_nights(kept, number), decisions(around.home.store, str(around.project))
    groups, notes = [Group.of(aim) for aim in gathered.aims], []
    if settings.recall_k:
        past = [group for one in earlier for group in one.groups]
        groups = [recalled(group, past, settings.recall_k) for group in groups]
    if settings.dream_factor:
        groups = [await with_accepted(group, gathered.sessions) for group in groups]
    if settings.slow_update_nights:
        for place, group in enumerate(groups):
            window = settings.slow_update_nights
            groups[place], why = with_past(
                group, earlier, state.nights, decided, tonight=number, window=window
            )
            notes += [f"{group.name}: {why}"] if why else []
    night = Tonight(
        number=number,
        started=now,
        sessions=len(gathered.sessions),
        next_since=gathered.harvest.next_since,
        terms=terms,
        advice=advice_of(settings, decided),
        groups=tuple(groups),
        notes=(gathered.mined.note, *gathered.mined.notes, *gathered.notes, *gathered.harvest.notes, *notes),
        suggestions=len(gathered.mined.suggestions),
        mining=gathered.cost,
    )
    pinned.save(night, kept.night(night.number))
    return night


def _reopened(around: Around, kept: ProjectHome, number: int, terms: str) -> Tonight | None:
    """The open night; None when it was begun with other models or settings, or a skill it works on was edited
    meanwhile.

    What it would prove then is about a run or a text that is gone.
    """
    night = pinned.load(kept.night(number))
    if night.terms != terms:
        return None
    roots = around.ground.roots
    return (
        night if all(live_text(Path(group.path), roots) == group.before for group in night.groups) else None
    )


def _stage(night: Tonight, around: Around, now: datetime) -> Proposal | None:
    """The proposal of all skills that got better; the one that is there already, where a crash came between
    staging and the record.
    """
    done = [
        (group, group.outcome)
        for group in night.groups
        if group.outcome is not None and group.outcome.changes
    ]
    if not done:
        return None
    store, name = around.home.store, _name(night)
    for id in store.ids():
        try:
            earlier, _ = store.load(id)
        except UsageError:  # not the user's, or not readable; `status` names it
            continue
        if (earlier.night, earlier.project) == (name, str(around.project)):
            return earlier
    drafts = [draft_of(group, outcome) for group, outcome in done]
    notes = [*map(_line, night.groups), *night.notes]
    return store.stage(
        drafts,
        roots=around.ground.roots,
        project=str(around.project),
        night=name,
        now=now,
        cost=night.spent,
        notes=notes,
    )


def _line(group: Group) -> str:
    """A skill of the night in one line, also one that nothing is proposed for."""
    outcome = group.outcome
    assert outcome is not None, "a night that is staged has an outcome for every skill"
    return (
        f"{group.name}:"
        f" {outcome.claim if outcome.changes else f'nothing is proposed ({outcome.judgement.why})'}"
    )


def _record(night: Tonight, proposal: Proposal | None, now: datetime) -> NightRecord:
    cost = night.spent
    actions = {row.action for row in map(_row, night.groups)}
    if not night.groups:
        outcome = f"nothing to learn from: {night.notes[0].rstrip('.')}"
    elif actions == {UNMEASURED}:
        outcome = "tonight's allowance did not pay for measuring the skills as they are"
    elif proposal is None and REFUSED in actions:
        outcome = "what was learned may not be proposed"
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
        skills=tuple(map(_row, night.groups)),
    )


def _row(group: Group) -> SkillRow:
    outcome = group.outcome
    assert outcome is not None, "a night that ended has an outcome for every skill"
    judged = outcome.judgement
    return SkillRow(
        name=group.name,
        path=group.path,
        action=judged.action,
        accepted=bool(outcome.changes),
        verified=judged.verified,
        baseline=judged.before,
        candidate=judged.after,
        tasks=sum(task.origin == "real" for task in group.tasks),
        dreams=0 if group.dreams is None else group.dreams.kept,
        edits=len(outcome.changes),
        rejected=outcome.rejected,
        why=judged.why,
    )


def _name(night: Tonight) -> str:
    return f"night-{night.number}-{night.started:%Y%m%dT%H%M%S}"
