"""A night: plans what it works on, trains skill after skill with the one engine, and stages what came of it.

A night that was stopped - by a signal, an outage, a crash, or questions that wait for an answer - stays open,
and the same command goes on. A preview says what a night would do and cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from skillopt.errors import ConfigError
from skillopt.messages import Usage
from skillopt.money import cost as cost_of_usage
from skillopt.run.calls import ASKED, NOTHING, Figure
from skillopt.run.estimation import estimate
from skillopt.run.models import known_price
from skillopt.runs.words import count
from skillopt.transcripts.session import RecordedSession
from skillopt_sleep.context import NightContext
from skillopt_sleep.drafts import drafts_of, drafts_with, suggestions_for
from skillopt_sleep.gather import NO_SKILL, ModelMining, at_once, gather, read_sessions, since_of
from skillopt_sleep.job import NightJobs, advice_of, with_allowance, without_guesses
from skillopt_sleep.judgement import Cost
from skillopt_sleep.plan import NightInput, NightPlan, NightTarget, origins_of
from skillopt_sleep.proposal import Proposal
from skillopt_sleep.readings import MOST_READ, batches, read_messages
from skillopt_sleep.settings import REMEDY, Roles
from skillopt_sleep.state import ProjectState, earlier_nights, with_earlier_skill, with_open_proposal
from skillopt_sleep.targets import live_text, near_agents
from skillopt_sleep.training import REFUSED, UNMEASURED, NightObserver, NightTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class NightResult:
    """How a night ended: its plan with every outcome, and the proposal, where there is one."""

    plan: NightPlan
    proposal: Proposal | None
    resumed: bool


async def run_night(
    context: NightContext,
    roles: Roles,
    *,
    environ: Mapping[str, str],
    now: Callable[[], datetime],
    observer: NightObserver | None = None,
    restart: bool = False,
) -> NightResult:
    """Run tonight's night, or go on with one that is open. Without news since the last one nobody is asked.
    `restart` leaves an open one and begins anew, also without news.

    Raises `RunConflict` while another night of the project runs, and what stops a training run; the night
    then stays open.
    """
    context = replace(context, settings=with_allowance(context.settings, roles))
    kept = context.kept
    jobs = context.jobs(roles, environ)
    terms = jobs.terms + ("" if context.tasks is None else f" {context.tasks.digest}")
    context.check_places()
    with kept.alone():
        state = kept.load()
        night = None if restart or state.open is None else _reopened(context, state.open, terms)
        resumed = night is not None
        if (
            night is None
            and not restart
            and (same := _without_news(context, state, now(), terms)) is not None
        ):
            return same
        if night is None:
            folder = kept.night(state.night + 1)
            say = observer.say if observer is not None else lambda doing: None
            asking = ModelMining(jobs=jobs, folder=folder, terms=terms, say=say, fresh=restart)
            night = await _begin(context, state, now(), terms, asking, replays=roles.replays)
            state = state.model_copy(update={"night": night.number, "open": night.number})
            kept.save(state)
        training = NightTraining(context=context, jobs=jobs, observer=observer)
        for place in range(len(night.targets)):
            night = await training.train(night, place)
        cost = without_guesses(night.spent, roles)
        proposal = _stage(night, context, now(), cost)
        night = _ended(night, proposal, now(), cost)
        night.save(kept.night(night.number))
        next_since = night.next_since or state.next_since
        kept.save(state.model_copy(update={"open": None, "next_since": next_since}))
    return NightResult(plan=night, proposal=proposal, resumed=resumed)


async def find_tasks(
    context: NightContext, roles: Roles | None, since: datetime | None, *, environ: Mapping[str, str]
) -> NightInput:
    """What the sessions since then hold, as a night would find it. Without models nobody is asked, and what
    no model has read yet teaches nothing.
    """
    if roles is None:
        return await gather(context, since)
    context = replace(context, settings=with_allowance(context.settings, roles))
    jobs = context.jobs(roles, environ)
    with context.kept.alone():
        folder = context.kept.folder / "harvest"
        asking = ModelMining(jobs=jobs, folder=folder, terms=jobs.terms, say=lambda doing: None, fresh=True)
        return await gather(context, since, asking, replays=roles.replays)


def _without_news(
    context: NightContext, state: ProjectState, now: datetime, terms: str
) -> NightResult | None:
    """The end of a night that would learn nothing new: the same sessions under the same terms as the last
    one, which measured all it wanted to. None where there is news.
    """
    last = next(iter(context.kept.ended(1)), None)
    if last is None or last.terms != terms or context.tasks is not None:
        return None
    if any(target.ended.judgement.action == UNMEASURED for target in last.targets):
        return None
    _, sessions = read_sessions(context, since_of(context.settings, now, state.next_since))
    if any(len(one.turns) > last.seen.get(one.name, 0) for one in sessions):
        return None
    plan = NightPlan(
        number=state.night,
        started=now,
        sessions=len(sessions),
        next_since=None,
        terms=terms,
        advice="",
        targets=(),
        notes=(f"no news since night {state.night}, so nobody was asked",),
    )
    return NightResult(plan=_ended(plan, None, now, plan.spent), proposal=None, resumed=False)


async def _begin(
    context: NightContext,
    state: ProjectState,
    now: datetime,
    terms: str,
    asking: ModelMining,
    *,
    replays: bool,
) -> NightPlan:
    """Read, mine and write down what the night works on."""
    since = since_of(context.settings, now, state.next_since)
    found = await gather(context, since, asking, replays=replays)
    settings, number = context.settings, state.night + 1
    earlier = earlier_nights(context.kept, number)
    decided = context.home.store.decisions(str(context.project))
    refused = [
        (target.name, text)
        for night in earlier
        for target in night.targets
        if target.outcome is not None
        for text in target.outcome.refused
    ]
    targets: list[NightTarget] = []
    notes: list[str] = []
    waiting = context.home.store.undecided(str(context.project))
    for target in found.targets:
        target, again = with_open_proposal(target, earlier, waiting)
        notes += [f"{target.name}: {again}"] if again else []
        if window := settings.slow_update_nights:
            target, why = with_earlier_skill(target, earlier, decided, tonight=number, window=window)
            notes += [f"{target.name}: {why}"] if why else []
        targets.append(target)
    left = {one.name for one in found.unread}
    # Unread sessions are read by the next night; one that never can be holds it back once.
    held = [one.ended for one in found.unread if since is None or one.ended > since]
    used = set(found.used)
    places, _ = near_agents(context.places, context.project, found.used)
    night = NightPlan(
        number=number,
        started=now,
        sessions=len(found.sessions),
        origins=origins_of(
            [one for one in found.sessions if one.name in used],
            [task for target in targets for task in target.tasks],
            targets,
        ),
        seen={one.name: len(one.turns) for one in found.sessions if one.name not in left},
        next_since=min((at for at in (found.harvest.next_since, *held) if at), default=None),
        terms=terms,
        advice=advice_of(settings, decided, refused),
        targets=tuple(targets),
        waiting=found.waiting,
        notes=(found.note, *found.notes, *found.harvest.notes, *notes),
        suggestions=suggestions_for(found.suggestions, settings, places, decided),
        states=dict(found.states),
        mining=found.cost,
    )
    night.save(context.kept.night(number))
    return night


def _reopened(context: NightContext, number: int, terms: str) -> NightPlan | None:
    """The open night; None if its models, settings or live texts are not those it was begun with."""
    night = NightPlan.load(context.kept.night(number))
    roots = context.places.roots
    is_same = night.terms == terms and all(
        live_text(target.path, roots, target.kind) == target.before for target in night.targets
    )
    return night if is_same else None


def _stage(night: NightPlan, context: NightContext, now: datetime, cost: Cost) -> Proposal | None:
    """The proposal of all skills with edits, or the one that a crash left without a record."""
    better = [target for target in night.targets if target.ended.edits]
    if not better and not night.suggestions:
        return None
    store, project = context.home.store, str(context.project)
    name = f"night-{night.number}-{night.started:%Y%m%dT%H%M%S}"
    for one in store.load_all().proposals:
        if (one.night, one.project) == (name, project):
            return one
    roots = context.places.roots
    drafts = drafts_with(
        [draft for one in better for draft in drafts_of(one, one.ended)], night.suggestions, roots
    )
    if not drafts:  # no suggestion is for a file that may be changed
        return None
    proposal = store.stage(
        drafts,
        roots=roots,
        project=project,
        night=name,
        now=now,
        cost=cost,
        notes=[*map(_line, night.targets), *night.notes],
        origins=night.origins,
    )
    store.replace_open(proposal)
    return proposal


def _line(target: NightTarget) -> str:
    """A skill of the night in one line, also one that nothing is proposed for."""
    outcome = target.ended
    result = outcome.claim if outcome.edits else f"nothing is proposed ({outcome.judgement.why})"
    return f"{target.name}: {result}"


def _ended(night: NightPlan, proposal: Proposal | None, now: datetime, cost: Cost) -> NightPlan:
    actions = {target.ended.judgement.action for target in night.targets}
    if proposal is not None and not any(target.ended.accepted for target in night.targets):
        outcome = f"suggests {count(len(proposal.edits), 'change')}, and shows of none that it helps"
    elif not actions:
        outcome = f"nothing to learn from: {night.notes[0].rstrip('.')}"
    elif actions == {UNMEASURED}:
        outcome = "tonight's allowance did not pay for measuring the skills as they are"
    elif proposal is None and REFUSED in actions:
        outcome = "what was learned may not be proposed"
    elif proposal is None:
        outcome = "no change was found that the held-out tasks agree to"
    else:
        outcome = f"proposes changes to {', '.join(target.name for target in proposal.targets)}"
    id = None if proposal is None else proposal.id
    return night.model_copy(update={"ended": now, "outcome": outcome, "proposal": id, "cost": cost})


_BY_HAND = Roles(target="handoff", optimizer="handoff")
"""Stands in where no model can be used: calls and tokens depend on the texts alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was found and would be spent; `usd` is None for an unknown price, `remedy` for the person."""

    found: NightInput
    calls: Figure
    tokens: Figure
    usd: Figure | None
    remedy: str
    to_read: int
    """Sessions a model would read, which is in the cost."""


async def preview(
    context: NightContext, roles: Roles | None, *, environ: Mapping[str, str], now: datetime
) -> Preview:
    """Look; nothing is sent, nothing is written and no night is begun."""
    context.check_places()
    since = since_of(context.settings, now, context.kept.load().next_since)
    found = await gather(context, since, replays=roles is not None and roles.replays)
    to_read: Sequence[RecordedSession] = ()
    if context.tasks is None:
        to_read = found.unread[-MOST_READ:]
        later = (
            "The cost is that of reading; what is trained on then comes on top, within tonight's allowance."
        )
        found = replace(found, notes=(*found.notes, *([later] if to_read else [])))
    jobs = context.jobs(roles or _BY_HAND, environ)
    remedy = REMEDY if roles is None else ""
    calls, tokens, usd = NOTHING, NOTHING, NOTHING if roles is not None else None
    try:
        jobs.job(NO_SKILL)
        jobs.reader.job(NO_SKILL)
    except ConfigError as error:
        if roles is None:
            raise
        remedy, usd = str(error), None
        settings = context.settings.model_copy(update={"reader_model": ""})
        jobs = replace(context, settings=settings).jobs(_BY_HAND, environ)
    for target in found.targets:
        made = estimate(jobs.job(target))
        calls, tokens = calls + made.calls, tokens + made.tokens
        usd = None if usd is None or made.usd is None else usd + made.usd
    if to_read:
        asked, read, paid = _reading(jobs, to_read)
        calls, tokens = calls + asked, tokens + read
        usd = None if usd is None or paid is None else usd + paid
    return Preview(found=found, calls=calls, tokens=tokens, usd=usd, remedy=remedy, to_read=len(to_read))


def _reading(jobs: NightJobs, sessions: Sequence[RecordedSession]) -> tuple[Figure, Figure, Figure | None]:
    """Calls, tokens and dollars of reading these sessions."""
    job = jobs.reader.job(NO_SKILL)
    asked = [
        sum(len(message.content) for message in read_messages(batch))
        for batch in batches(sessions, at_once(job))
    ]
    turns = sum(turn.role == "user" for session in sessions for turn in session.turns)
    # Four characters a token is the middle of what texts take; a turn is told in some fifty.
    used = Usage(input_tokens=sum(asked) // 4, output_tokens=50 * turns)
    most = Usage(input_tokens=ASKED * sum(asked), output_tokens=ASKED * len(asked) * job.optimizer.max_tokens)
    usd = None
    if (price := known_price(job.optimizer)) is not None:
        usd = Figure(typical=float(cost_of_usage(used, price)), at_most=float(cost_of_usage(most, price)))
    return (
        Figure(typical=len(asked), at_most=ASKED * len(asked)),
        Figure(typical=used.total, at_most=most.total),
        usd,
    )
