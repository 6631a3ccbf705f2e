"""Finds what comes back in a person's sessions, and makes tasks of the requests that can be asked again.

A *kind* is a group of requests that are alike; it counts when it comes from several sessions, or when the
person said what they want every time. Each different request of a kind is a task, with whatever was pasted
into it. A task is replayed only when it needs nothing but its text and there is a way to measure an answer
that was seen to tell good from bad; a wish that cannot be replayed becomes a suggestion. Every session ends
in one counted state.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from skillopt.errors import BudgetSpent
from skillopt.models.port import Model
from skillopt.process.waiting import together
from skillopt.tasks.judge import Judge
from skillopt.tasks.task import Split
from skillopt.transcripts.session import RecordedSession
from skillopt_sleep.labels import (
    Label,
    SplitOf,
    clean_requests,
    label_kinds,
    session_names,
    title_of,
    train_requests,
)
from skillopt_sleep.measures import Measure, measure_kind, measure_task
from skillopt_sleep.plan import NightInput
from skillopt_sleep.readings import SessionReading, reading_of
from skillopt_sleep.requests import (
    FindWorktree,
    PastRequest,
    RequestOutcome,
    in_worktree,
    requests_of,
    wishes_of,
)
from skillopt_sleep.scorer import Guards, guards_of, lines_of_work
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.tasks import NightTask, Suggestion, balanced, split_of, standing_of
from skillopt_sleep.wording import kinds, normal

MIN_SESSIONS = 2
"""Sessions a kind must come from to recur."""
_SOON = timedelta(hours=1)
"""A request that comes again in a new session within this time was not answered the first time."""
_WORST_FIRST: Mapping[RequestOutcome, int] = {
    **{"redone": 0, "corrected": 0, "abandoned": 1},
    **{"unknown": 1, "accepted": 2},
}
_KEPT = 20_000
_MOST_OBJECTIONS = 5
_MOST_WISHES = 10
TASK, SUGGESTION = "a task", "a suggestion"
OVER = "a task over the limit of a night"
COVERED = "learned through others of its kind"
WAITS = "waiting for more of its kind"
_ENDS: Mapping[RequestOutcome, str] = {
    "accepted": "nothing to learn: accepted as it was",
    "corrected": "nothing to learn: said for this once",
    "redone": "nothing to learn: said for this once",
    "abandoned": "nothing to learn: given up",
    "unknown": "nothing to learn: no word about the answer",
}
_UNREAD = "unread: no model has read it yet"
_SILENT = "nothing to learn: no words in it"
STATES = (TASK, SUGGESTION, OVER, COVERED, WAITS)
"""What a session can become, the best first; the rest is nothing to learn, by reason."""


async def mine(
    sessions: Iterable[RecordedSession],
    *,
    readings: Mapping[str, SessionReading] | None = None,
    titles: Mapping[str, str] | None = None,
    personal: Collection[str] = (),
    remembered: Sequence[NightTask] = (),
    find: FindWorktree | None = None,
    model: Model | None = None,
    judge: Judge | None = None,
    settings: NightSettings | None = None,
) -> NightInput:
    """Tasks and suggestions out of sessions; the same sessions in any order give the same.

    `readings` are what a model read in sessions, by name, and `titles` the kinds of what they are about; a
    session without one is unread, unless the person spoke only once. What earlier nights asked is
    `remembered`: it keeps its split. Requests of different projects meet only over one of the `personal`
    skills. What was worked on with tools is a task where `find` finds its worktree, else nobody replays it.
    Without a model every check comes from the person's own words; with one, each kind that could be replayed
    and measured is asked about once (by examples of the train split only), and what it writes is read
    strictly and tested. A rubric counts only where there is a `judge` to try it.
    """
    settings = settings or NightSettings()
    every = tuple(sessions)
    read = [(session, reading_of(session, readings or {})) for session in every]
    states = _SessionStates({session.name: _UNREAD if found is None else _SILENT for session, found in read})
    known = [(session, found) for session, found in read if found is not None]
    groups = _kinds(known, titles or {}, personal, states, find)
    split = _splits(groups, remembered, settings)
    labels, notes = await label_kinds(groups, model, split, remembered)
    measured = await together(
        *(_mined(group, label, split, judge, states) for group, label in zip(groups, labels, strict=True))
    )
    found = [task for tasks, _ in measured for task in tasks]
    found.sort(key=lambda task: (_WORST_FIRST[task.outcome], -len(task.sessions), task.id))
    most = settings.max_tasks_per_night
    for place, task in enumerate(found):
        for name in task.sessions:
            states.note(name, TASK if place < most else OVER)
    tasks = sorted(found[:most], key=lambda task: task.id)
    suggestions = tuple(one for _, unmeasured in measured for one in unmeasured)
    standing, note = standing_of(tasks, has_suggestions=bool(suggestions))
    return NightInput(
        tasks=tuple(tasks),
        suggestions=suggestions,
        standing=standing,
        note=note,
        states=states.counted(),
        notes=tuple(notes),
    )


class _SessionStates(dict[str, str]):
    """The best that any request of each session became, by its name."""

    def note(self, name: str, state: str) -> None:
        """A request of this session became so much; of what is nothing to learn, the first counts."""
        ranks = {one: rank for rank, one in enumerate(STATES)}
        before = self[name]
        if before == _SILENT or ranks.get(state, len(ranks)) < ranks.get(before, len(ranks)):
            self[name] = state

    def counted(self) -> dict[str, int]:
        """How many sessions ended in each state."""
        counts = Counter(self.values())
        return {state: counts[state] for state in dict.fromkeys((*STATES, *sorted(counts))) if counts[state]}


def _kinds(
    sessions: Iterable[tuple[RecordedSession, SessionReading]],
    titles: Mapping[str, str],
    personal: Collection[str],
    states: _SessionStates,
    find: FindWorktree | None,
) -> list[list[PastRequest]]:
    """The requests of every kind that counts, by project or personal skill, each group from old to new."""
    by_home: dict[str, list[PastRequest]] = defaultdict(list)
    for session, reading in sorted(sessions, key=lambda read: (read[0].started, read[0].source, read[0].id)):
        for request in requests_of(session, reading):
            if request.form:
                by_home[home_of(session, personal)].append(in_worktree(request, find) if find else request)
    groups: list[list[PastRequest]] = []
    for home in sorted(by_home):
        found = by_home[home]
        by_kind: dict[str, list[PastRequest]] = defaultdict(list)
        numbers = kinds([normal(request.about) or request.form for request in found])
        for number, request in zip(numbers, found, strict=True):
            by_kind[titles.get(request.about) or str(number)].append(request)
        for group in by_kind.values():
            lasts = any(one.lasting for request in group for one in request.corrections)
            for request in group:
                waits = bool(request.corrections) and not lasts
                states.note(request.session.name, WAITS if waits else _ENDS[request.outcome])
            if lasts or len(session_names(group)) >= MIN_SESSIONS:
                groups.append(_with_repeats(group))
    return sorted(groups, key=lambda group: (group[0].session.project, min(one.form for one in group)))


def home_of(session: RecordedSession, personal: Collection[str]) -> str:
    """What a session's requests may meet in: its project, or over all projects the one skill of the person's
    own that it used.
    """
    own = len(session.skills) == 1 and session.skills[0] in personal
    return f"skill {session.skills[0]}" if own else session.project


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
        marked.append(replace(one, outcome="redone") if again else one)
    return marked


def _splits(
    groups: Iterable[Sequence[PastRequest]], remembered: Sequence[NightTask], settings: NightSettings
) -> SplitOf:
    """The splits of the night's requests by form; of any other form by its hash."""
    pins = {task.id: task.split for task in remembered}
    by_skill: dict[str, dict[str, str]] = defaultdict(dict)
    for group in groups:
        for request in group:
            if not request.needs:
                by_skill[_only_skill(request.session.skills)][request.form] = _id(request)
    known: dict[str, Split] = {}
    for skill, forms in sorted(by_skill.items()):
        asked_before = (task for task in remembered if task.id not in forms.values())
        others = [task.split for task in asked_before if _only_skill(task.skills) == skill]
        pinned = {form: pins[id] for form, id in forms.items() if id in pins}
        known |= balanced(forms, {**pinned, **known}, others, settings)
    return lambda form: known.get(form) or split_of(form, settings)


def _only_skill(skills: tuple[str, ...]) -> str:
    return skills[0] if len(skills) == 1 else ""


def _id(one: PastRequest) -> str:
    return "m-" + hashlib.sha256(f"{one.session.project}\0{one.form}".encode()).hexdigest()[:12]


async def _mined(
    group: Sequence[PastRequest],
    label: Label | None,
    split: SplitOf,
    judge: Judge | None,
    states: _SessionStates,
) -> tuple[list[NightTask], list[Suggestion]]:
    """The tasks of a kind, or suggestions where there is none and something to say."""
    title = label.title if label is not None and label.title else title_of(group)
    forms: dict[str, list[PastRequest]] = defaultdict(list)
    for one in group:
        forms[one.form].append(one)
    tasks: list[NightTask] = []
    reasons: Counter[str] = Counter()
    asked = [(same[-1].turn.text, [text for one in same for text in one.accepted]) for same in forms.values()]
    guards = dict(zip(forms, guards_of(asked), strict=True))
    try:
        of_kind = await measure_kind(group, label, judge)
    except BudgetSpent:  # a rubric that could not be tried is none
        of_kind = await measure_kind(group, label, None)
    clean = {} if label is None else clean_requests(label, train_requests(group, split))
    # Without its greeting a request may be one that decides: tonight, or whenever it is asked so.
    clean = {form: text for form, text in clean.items() if split(normal(text)) == "train"}
    for form, same in sorted(forms.items()):
        last = same[-1]
        lacks = label is not None and not label.self_contained and last.worktree is None
        needs = last.needs or (label.needs if label is not None and lacks else "")
        if needs:
            reasons[f"it needs the repository or the conversation: {needs}"] += 1
        elif measure := await measure_task(same, of_kind):
            prompt = clean.get(form, last.turn.text)
            tasks.append(_task(same, measure, guards[form], kind=title, prompt=prompt, split=split(form)))
        else:
            reasons["there is no way to measure an answer that was seen to tell good from bad"] += 1
    wishes = wishes_of(group)
    for request in group:
        if request.corrections and (tasks or wishes):
            states.note(request.session.name, COVERED if tasks else SUGGESTION)
    if tasks or not wishes:
        return tasks, []
    reason = reasons.most_common(1)[0][0]
    skills = tuple(dict.fromkeys(skill for one in group for skill in one.session.skills))
    return [], [
        Suggestion(kind=title, wish=wish, reason=reason, sessions=said_in, skills=skills)
        for wish, said_in in list(wishes.items())[:_MOST_WISHES]
    ]


def _task(
    same: Sequence[PastRequest], measure: Measure, guards: Guards, *, kind: str, prompt: str, split: Split
) -> NightTask:
    accepted = [text for one in same for text in one.accepted]
    if same[-1].worktree is not None:
        guards = Guards(lines=lines_of_work(same[-1].turn.text, accepted))
    texts = [one.text for request in reversed(same) for one in reversed(request.corrections)]
    objections = tuple(dict.fromkeys(texts))
    return NightTask(
        id=_id(same[-1]),
        kind=kind,
        project=same[-1].session.project,
        prompt=prompt,
        split=split,
        outcome=min((one.outcome for one in same), key=_WORST_FIRST.__getitem__),
        skills=tuple(dict.fromkeys(skill for one in same for skill in one.session.skills)),
        # Of a train task those first in which what is quoted of it was said.
        sessions=session_names([*(one for one in same[::-1] if one.corrections), *same[::-1]]),
        checks=tuple(rule.as_json() for rule in measure.checks),
        rubric=measure.rubric,
        formal=measure.formal,
        # What was said of a held-out request is not for whoever writes the skill.
        accepted=accepted[-1][:_KEPT] if accepted and split == "train" else "",
        objections=objections[:_MOST_OBJECTIONS][::-1] if split == "train" else (),
        guards=guards,
        worktree=same[-1].worktree,
        form_alone=not (guards.lines or measure.tells),
    )
