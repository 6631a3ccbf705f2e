"""Finds the requests that come back in a person's sessions, and makes tasks of those that can be asked again.

A *kind* is a group of requests that are alike; it recurs when it comes from several sessions. Each different
request of a kind is a task. A task is replayed only when it needs nothing but its text and there is a way to
measure an answer that was seen to tell good from bad; what recurs and cannot be replayed becomes a suggestion
for the person to read.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from skillopt.aio import together
from skillopt.errors import BudgetSpent
from skillopt.models.port import Model
from skillopt.night.kinds import kinds, normal, opening
from skillopt.night.labels import Label, clean_requests, label
from skillopt.night.measures import Measure, measure_kind, measure_task
from skillopt.night.requests import PastRequest, RequestOutcome, requests_of
from skillopt.night.settings import NightSettings
from skillopt.night.tasks import NightTask, Standing, split_of, standing_of
from skillopt.tasks.judge import Judge
from skillopt.transcripts.session import RecordedSession

MIN_SESSIONS = 2
"""Sessions a kind must come from to recur."""
_SOON = timedelta(hours=1)
"""A request that comes again in a new session within this time was not answered the first time."""
_MOST_ASKED = 24
"""Kinds that a model is asked about at most, those from most sessions first."""
_WORST_FIRST: Mapping[RequestOutcome, int] = {"repeated": 0, "corrected": 0, "unknown": 1, "accepted": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class MinedSuggestion:
    """Something that recurs and was not measured: for a person to read, never for a gate to decide."""

    kind: str
    project: str
    reason: str
    """Why it is not replayed."""
    sessions: tuple[str, ...]
    skills: tuple[str, ...]
    prompts: tuple[str, ...]
    corrections: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """What a harvest holds. `standing` says what may be claimed of a training run on it."""

    tasks: tuple[NightTask, ...]
    suggestions: tuple[MinedSuggestion, ...]
    standing: Standing
    note: str
    """The standing in words for a person."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Requests that became neither, by reason."""
    notes: tuple[str, ...] = ()
    """What a person should know about how it was mined."""


async def mine(
    sessions: Iterable[RecordedSession],
    *,
    model: Model | None = None,
    judge: Judge | None = None,
    settings: NightSettings | None = None,
) -> Mined:
    """Tasks and suggestions out of sessions; the same sessions in any order give the same.

    Requests of different projects never meet. Without a model nothing is asked and every check comes from the
    person's own words; with one, each recurring kind that could be replayed and measured is asked about once
    (by examples of the train split only), and what it writes is read strictly and tested. A rubric counts
    only where there is a `judge` to try it.
    """
    settings = settings or NightSettings()
    left_out: Counter[str] = Counter()
    groups = _recurring(sessions, left_out)
    labels, notes = await _labels(groups, model, settings)
    measured = await together(
        *(_mined(group, told, settings, judge) for group, told in zip(groups, labels, strict=True))
    )
    left_out["nothing to measure it by"] += measured.count(([], None))
    found = [task for tasks, _ in measured for task in tasks]
    found.sort(key=lambda task: (_WORST_FIRST[task.outcome], -len(task.sessions), task.id))
    most = settings.max_tasks_per_night
    left_out["over the limit of tasks"] += max(0, len(found) - most)
    tasks = sorted(found[:most], key=lambda task: task.id)
    suggestions = tuple(suggestion for _, suggestion in measured if suggestion is not None)
    standing, note = standing_of(tasks, len(suggestions))
    return Mined(
        tasks=tuple(tasks),
        suggestions=suggestions,
        standing=standing,
        note=note,
        left_out={reason: count for reason, count in sorted(left_out.items()) if count},
        notes=tuple(notes),
    )


def _recurring(sessions: Iterable[RecordedSession], left_out: Counter[str]) -> list[list[PastRequest]]:
    """The requests of every kind that recurs, by project, each group from old to new."""
    by_project: dict[str, list[PastRequest]] = defaultdict(list)
    for session in sorted(sessions, key=lambda session: (session.started, session.source, session.id)):
        for request in requests_of(session):
            if request.form:
                by_project[session.project].append(request)
            else:
                left_out["no words in it"] += 1
    groups: list[list[PastRequest]] = []
    for found in by_project.values():
        by_kind: dict[int, list[PastRequest]] = defaultdict(list)
        for number, request in zip(kinds([request.form for request in found]), found, strict=True):
            by_kind[number].append(request)
        for group in by_kind.values():
            if len(_sessions(group)) >= MIN_SESSIONS:
                groups.append(_with_repeats(group))
            else:
                left_out["asked in too few sessions"] += len(group)
    return sorted(groups, key=lambda group: (group[0].session.project, min(one.form for one in group)))


def _with_repeats(group: Sequence[PastRequest]) -> list[PastRequest]:
    """The group with what was asked again soon, in another session, marked as repeated."""
    marked: list[PastRequest] = []
    for place, one in enumerate(group):
        again = one.outcome == "unknown" and any(
            later.form == one.form
            and later.session.id != one.session.id
            and timedelta(0) <= later.session.started - one.session.ended <= _SOON
            for later in group[place + 1 :]
        )
        marked.append(replace(one, outcome="repeated") if again else one)
    return marked


def _train(group: Sequence[PastRequest], settings: NightSettings) -> list[PastRequest]:
    return [one for one in group if split_of(one.form, settings) == "train"]


async def _labels(
    groups: Sequence[list[PastRequest]], model: Model | None, settings: NightSettings
) -> tuple[list[Label | None], list[str]]:
    """What a model says of each kind, None where it was not asked or not understood; and that in words."""
    labels: list[Label | None] = [None] * len(groups)
    if model is None:
        return labels, []
    # What needs the repository every time cannot be replayed, and what nobody reacted to cannot be measured:
    # neither is worth a call.
    worth = [
        place
        for place, group in enumerate(groups)
        if not all(one.needs for one in group)
        and any(one.accepted or one.rejected for one in group)
        and _train(group, settings)
    ]
    worth.sort(key=lambda place: (-len(_sessions(groups[place])), place))
    lost: Counter[str] = Counter()

    async def ask(place: int) -> None:
        try:
            labels[place] = await label(model, _title(groups[place]), _train(groups[place], settings))
        except BudgetSpent:
            lost["tonight's allowance for mining was spent before they were asked about"] += 1
        else:
            if labels[place] is None:
                lost["the model's replies about them could not be used"] += 1

    await together(*(ask(place) for place in worth[:_MOST_ASKED]))
    if len(worth) > _MOST_ASKED:
        lost[f"a model is asked about {_MOST_ASKED} kinds at most"] += len(worth) - _MOST_ASKED
    return labels, [
        f"{count} of {len(worth)} kinds were mined by your own words alone: {why}."
        for why, count in sorted(lost.items())
    ]


async def _mined(
    group: Sequence[PastRequest], told: Label | None, settings: NightSettings, judge: Judge | None
) -> tuple[list[NightTask], MinedSuggestion | None]:
    """The tasks of a kind, or a suggestion where there is none and something to say."""
    title = told.title if told is not None and told.title else _title(group)
    forms: dict[str, list[PastRequest]] = defaultdict(list)
    for one in group:
        forms[one.form].append(one)
    tasks: list[NightTask] = []
    reasons: Counter[str] = Counter()
    try:
        of_kind = await measure_kind(group, told, judge)
    except BudgetSpent:  # a rubric that could not be tried is none
        of_kind = await measure_kind(group, told, None)
    clean = {} if told is None else clean_requests(told, _train(group, settings))
    # Without its greeting a request may be one that decides: tonight, or whenever it is asked so.
    clean = {form: text for form, text in clean.items() if split_of(normal(text), settings) == "train"}
    for form, same in sorted(forms.items()):
        needs = same[-1].needs or (told.needs if told is not None and not told.self_contained else "")
        if needs:
            reasons[f"it needs the repository or the conversation: {needs}"] += 1
        elif measure := await measure_task(same, of_kind):
            prompt = clean.get(form, same[-1].turn.text)
            tasks.append(_task(same, measure, kind=title, prompt=prompt, settings=settings))
        else:
            reasons["there is no way to measure an answer that was seen to tell good from bad"] += 1
    corrections = _unique(text for one in group for text in one.corrections)
    if tasks or not corrections:
        return tasks, None
    return [], MinedSuggestion(
        kind=title,
        project=group[0].session.project,
        reason=reasons.most_common(1)[0][0],
        sessions=_sessions(group),
        skills=_unique(skill for one in group for skill in one.session.skills),
        prompts=_unique(one.turn.text for one in group)[:5],
        corrections=corrections[:10],
    )


def _task(
    same: Sequence[PastRequest], measure: Measure, *, kind: str, prompt: str, settings: NightSettings
) -> NightTask:
    form, project = same[-1].form, same[-1].session.project
    return NightTask(
        id="m-" + hashlib.sha256(f"{project}\0{form}".encode()).hexdigest()[:12],
        kind=kind,
        project=project,
        prompt=prompt,
        split=split_of(form, settings),
        outcome=min((one.outcome for one in same), key=_WORST_FIRST.__getitem__),
        skills=_unique(skill for one in same for skill in one.session.skills),
        sessions=_sessions(same),
        checks=tuple(rule.as_json() for rule in measure.checks),
        rubric=measure.rubric,
    )


def _title(group: Sequence[PastRequest]) -> str:
    """What the requests of a kind begin with; never more, as a title must not tell a held-out one."""
    begins = Counter(opening(one.form) or one.form.split()[0] for one in group)
    return max(sorted(begins), key=lambda words: begins[words])


def _sessions(group: Iterable[PastRequest]) -> tuple[str, ...]:
    return _unique(f"{one.session.source}:{one.session.id}" for one in group)


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
