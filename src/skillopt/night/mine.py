"""Finds the tasks that come back in a person's sessions, and decides which can be asked again, how they are
measured and where they go.

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
from typing import Literal

from skillopt.aio import together
from skillopt.errors import BudgetSpent
from skillopt.models.port import Model
from skillopt.night._episodes import Episode, Outcome, episodes
from skillopt.night._kinds import kinds, normal, opening
from skillopt.night._label import Label, clean_requests, label
from skillopt.night._measure import Measure, measure, measure_kind
from skillopt.tasks.judge import Judge
from skillopt.tasks.scorers._rules import Rule
from skillopt.tasks.task import Split, Task
from skillopt.transcripts.session import Session

Standing = Literal["ready", "unverified", "suggestions"]
_SOON = timedelta(hours=1)
"""A request that comes again in a new session within this time was not answered the first time."""
_MOST_ASKED = 24
"""Kinds that a model is asked about at most, those from most sessions first."""
_WORST_FIRST: Mapping[Outcome, int] = {"repeated": 0, "corrected": 0, "unknown": 1, "accepted": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class MineSettings:
    """How much is mined and how it is split."""

    min_sessions: int = 2
    """Sessions a kind must come from to recur."""
    max_tasks: int = 40
    val_fraction: float = 0.34
    test_fraction: float = 0.0
    seed: int = 42
    min_val: int = 5
    """Fewer val tasks than this decide nothing: the result is an unverified suggestion."""

    def __post_init__(self) -> None:
        if not (
            self.val_fraction >= 0 and self.test_fraction >= 0 and self.val_fraction + self.test_fraction < 1
        ):
            raise ValueError("val_fraction and test_fraction are not negative and together less than 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinedTask:
    """One request that can be asked again. All of it is redacted text."""

    id: str
    kind: str
    """Title of its kind."""
    project: str
    prompt: str
    split: Split
    outcome: Outcome
    skills: tuple[str, ...]
    """Skills that were used when it was asked."""
    sessions: tuple[str, ...]
    """`source:id` of the sessions it was asked in."""
    corrections: tuple[str, ...] = ()
    checks: tuple[Rule, ...] = ()
    rubric: str = ""

    def as_task(self) -> Task:
        """For a run; scored by `MinedScorer`."""
        reference = {"checks": [check.as_json() for check in self.checks], "rubric": self.rubric}
        return Task(id=self.id, prompt=self.prompt, reference=reference, kind=self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
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

    tasks: tuple[MinedTask, ...]
    suggestions: tuple[Suggestion, ...]
    standing: Standing
    note: str
    """The standing in words for a person."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Requests that became neither, by reason."""
    notes: tuple[str, ...] = ()
    """What a person should know about how it was mined."""

    def of(self, split: Split) -> tuple[MinedTask, ...]:
        """The tasks of a split, in their fixed order."""
        return tuple(task for task in self.tasks if task.split == split)


async def mine(
    sessions: Iterable[Session],
    *,
    model: Model | None = None,
    judge: Judge | None = None,
    settings: MineSettings | None = None,
) -> Mined:
    """Tasks and suggestions out of sessions; the same sessions in any order give the same.

    Requests of different projects never meet. Without a model nothing is asked and every check comes from the
    person's own words; with one, each recurring kind that could be replayed and measured is asked about once
    (by examples of the train split only), and what it writes is read strictly and tested. A rubric counts
    only where there is a `judge` to try it.
    """
    settings = settings or MineSettings()
    left_out: Counter[str] = Counter()
    groups = _recurring(sessions, settings, left_out)
    labels, notes = await _labels(groups, model, settings)
    measured = await together(
        *(_mined(group, told, settings, judge) for group, told in zip(groups, labels, strict=True))
    )
    found: list[MinedTask] = []
    suggestions: list[Suggestion] = []
    for tasks, suggestion in measured:
        found += tasks
        if suggestion is not None:
            suggestions.append(suggestion)
        elif not tasks:
            left_out["nothing to measure it by"] += 1
    tasks = sorted(found, key=lambda task: (_WORST_FIRST[task.outcome], -len(task.sessions), task.id))
    if len(tasks) > settings.max_tasks:
        left_out["over the limit of tasks"] += len(tasks) - settings.max_tasks
    tasks = sorted(tasks[: settings.max_tasks], key=lambda task: task.id)
    standing, note = standing_of(tasks, len(suggestions), settings.min_val)
    return Mined(
        tasks=tuple(tasks),
        suggestions=tuple(suggestions),
        standing=standing,
        note=note,
        left_out=dict(sorted(left_out.items())),
        notes=tuple(notes),
    )


def split_of(form: str, settings: MineSettings) -> Split:
    """The split of a request by its normal form alone: the same tonight and any other night, so val never
    becomes training.
    """
    share = int.from_bytes(hashlib.sha256(f"{settings.seed}\0{form}".encode()).digest()[:8], "big") / 2**64
    if share < settings.val_fraction:
        return "val"
    return "test" if share < settings.val_fraction + settings.test_fraction else "train"


def _recurring(
    sessions: Iterable[Session], settings: MineSettings, left_out: Counter[str]
) -> list[list[Episode]]:
    """The episodes of every kind that recurs, by project, each group from old to new."""
    by_project: dict[str, list[Episode]] = defaultdict(list)
    for session in sorted(sessions, key=lambda session: (session.started, session.source, session.id)):
        for episode in episodes(session):
            if not episode.form:
                left_out["no words in it"] += 1
            else:
                by_project[session.project].append(episode)
    groups: list[list[Episode]] = []
    for _, found in sorted(by_project.items()):
        kind: dict[int, list[Episode]] = defaultdict(list)
        for number, episode in zip(kinds([episode.form for episode in found]), found, strict=True):
            kind[number].append(episode)
        for group in kind.values():
            if len({_name(episode.session) for episode in group}) >= settings.min_sessions:
                groups.append(_with_repeats(group))
            else:
                left_out["asked in too few sessions"] += len(group)
    return sorted(
        groups, key=lambda group: (group[0].session.project, min(episode.form for episode in group))
    )


def _with_repeats(group: Sequence[Episode]) -> list[Episode]:
    """The group with what was asked again soon, in another session, marked as repeated."""
    marked: list[Episode] = []
    for place, episode in enumerate(group):
        again = any(
            later.form == episode.form
            and later.session.id != episode.session.id
            and timedelta(0) <= later.session.started - episode.session.ended <= _SOON
            for later in group[place + 1 :]
        )
        marked.append(
            replace(episode, outcome="repeated") if again and episode.outcome == "unknown" else episode
        )
    return marked


def _train(group: Sequence[Episode], settings: MineSettings) -> list[Episode]:
    return [episode for episode in group if split_of(episode.form, settings) == "train"]


async def _labels(
    groups: Sequence[list[Episode]], model: Model | None, settings: MineSettings
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
        if not all(episode.needs for episode in group)
        and any(episode.accepted or episode.rejected for episode in group)
        and _train(group, settings)
    ]
    worth.sort(key=lambda place: (-len({_name(episode.session) for episode in groups[place]}), place))
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
    group: Sequence[Episode], told: Label | None, settings: MineSettings, judge: Judge | None
) -> tuple[list[MinedTask], Suggestion | None]:
    """The tasks of a kind, or a suggestion where there is none and something to say."""
    title = told.title if told is not None and told.title else _title(group)
    forms: dict[str, list[Episode]] = defaultdict(list)
    for episode in group:
        forms[episode.form].append(episode)
    tasks: list[MinedTask] = []
    reasons: Counter[str] = Counter()
    of_kind = await _measured_kind(group, told, judge)
    clean = {} if told is None else clean_requests(told, _train(group, settings))
    # Without its greeting a request may be one that decides: tonight, or whenever it is asked so.
    clean = {form: text for form, text in clean.items() if split_of(normal(text), settings) == "train"}
    for form, same in sorted(forms.items()):
        needs = same[-1].needs or (told.needs if told is not None and not told.self_contained else "")
        if needs:
            reasons[f"it needs the repository or the conversation: {needs}"] += 1
            continue
        how = await measure(same, of_kind)
        if not how:
            reasons["there is no way to measure an answer that was seen to tell good from bad"] += 1
            continue
        tasks.append(_task(form, same, title, how, split_of(form, settings), clean.get(form)))
    corrections = _unique(text for episode in group for text in episode.corrections)
    if tasks or not corrections:
        return tasks, None
    return [], Suggestion(
        kind=title,
        project=group[0].session.project,
        reason=reasons.most_common(1)[0][0],
        sessions=_unique(_name(episode.session) for episode in group),
        skills=_unique(skill for episode in group for skill in episode.session.skills),
        prompts=_unique(episode.request.text for episode in group)[:5],
        corrections=corrections[:10],
    )


async def _measured_kind(group: Sequence[Episode], told: Label | None, judge: Judge | None) -> Measure:
    try:
        return await measure_kind(group, told, judge)
    except BudgetSpent:  # a rubric that could not be tried is none
        return await measure_kind(group, told, None)


def _task(
    form: str, same: Sequence[Episode], title: str, how: Measure, split: Split, clean: str | None
) -> MinedTask:
    newest = same[-1]
    project = newest.session.project
    return MinedTask(
        id="m-" + hashlib.sha256(f"{project}\0{form}".encode()).hexdigest()[:12],
        kind=title,
        project=project,
        prompt=clean if clean is not None else newest.request.text,
        split=split,
        outcome=min((episode.outcome for episode in same), key=lambda outcome: _WORST_FIRST[outcome]),
        skills=_unique(skill for episode in same for skill in episode.session.skills),
        sessions=_unique(_name(episode.session) for episode in same),
        corrections=_unique(text for episode in same for text in episode.corrections),
        checks=how.checks,
        rubric=how.rubric,
    )


def standing_of(tasks: Sequence[MinedTask], suggestions: int, min_val: int) -> tuple[Standing, str]:
    """What may be claimed of a training run on these tasks, and that in words."""
    count = Counter(task.split for task in tasks)
    if not count["train"] or not count["val"]:
        what = f"{len(tasks)} tasks can be replayed" if tasks else "No task can be replayed"
        more = f"; {suggestions} suggestions are for you to read" if suggestions else ""
        return (
            "suggestions",
            f"{what}, and training needs some to learn from and others to decide with{more}.",
        )
    if count["val"] < min_val:
        return (
            "unverified",
            (
                f"Unverified suggestion: tasks to decide with are {count['val']}, fewer than {min_val}; a"
                " gain on them may be chance."
            ),
        )
    return "ready", f"{count['train']} tasks to learn from and {count['val']} to decide with."


def _title(group: Sequence[Episode]) -> str:
    """What the requests of a kind begin with. Never more: a title is shown with train tasks, and must not
    tell a held-out one.
    """
    begins = Counter(opening(episode.form) or episode.form.split()[0] for episode in group)
    return max(sorted(begins), key=lambda words: begins[words])


def _name(session: Session) -> str:
    return f"{session.source}:{session.id}"


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
