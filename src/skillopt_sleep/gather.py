"""What stands before a night: sessions of a project, what is mined from them, and the skills it is about."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from skillopt.agents import pick
from skillopt.config.record import run_identity
from skillopt.errors import BudgetSpent
from skillopt.evaluation.judge import ModelJudge
from skillopt.models.port import Model
from skillopt.redact import redact_transcript
from skillopt.run import Job, OpenRun, open_run
from skillopt.runs.words import count
from skillopt.transcripts import MOST_SESSIONS, Homes, harvest
from skillopt.transcripts.session import Harvest, RecordedSession, TranscriptSource, is_within
from skillopt_sleep.context import NightContext
from skillopt_sleep.job import NightJobs, cost_of
from skillopt_sleep.judgement import Cost, total_cost
from skillopt_sleep.mining import home_of, mine
from skillopt_sleep.plan import NightInput, NightTarget, PinnedSessions
from skillopt_sleep.readings import (
    AT_ONCE,
    MOST_READ,
    SessionReading,
    kinds_with_model,
    read_with_model,
    unread,
)
from skillopt_sleep.requests import requests_of
from skillopt_sleep.settings import NightSettings, Roles
from skillopt_sleep.state import earlier_nights, remembered_tasks
from skillopt_sleep.targets import check_skills, near_agents, targets_for
from skillopt_sleep.tasks import NightTask, standing_of
from skillopt_sleep.tasks_file import TasksFile
from skillopt_sleep.worktrees import Worktrees

SHARE = 4
"""Mining may use one part in so many of tonight's allowance: what it finds is trained on afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMining:
    """How the optimizer is asked about sessions; replies lie in `folder`, and `fresh` forgets those. `say`
    hears what is asked next.
    """

    jobs: NightJobs
    folder: Path
    terms: str
    say: Callable[[str], None]
    fresh: bool = False


def check_night(context: NightContext, roles: Roles, environ: Mapping[str, str]) -> None:
    """Raise what would stop a night before its first question: models without a key, a bad option, places
    that nothing can be kept in or proposed for.
    """
    context.check_places()
    jobs = context.jobs(roles, environ)
    jobs.job(NO_SKILL)
    jobs.reader.job(NO_SKILL)


def since_of(settings: NightSettings, now: datetime, next_since: datetime | None) -> datetime | None:
    """From when on sessions are read: the time to look back, or since the last night if that is longer."""
    if not settings.lookback_hours:
        return None
    since = now - timedelta(hours=settings.lookback_hours)
    return since if next_since is None else min(since, next_since)


def sources_of(settings: NightSettings, homes: Homes) -> list[TranscriptSource]:
    """The transcript sources that the settings name."""
    names = [name.strip() for name in settings.transcript_source.split(",") if name.strip()]
    return list(pick(names or ["auto"], homes))


def read_sessions(
    context: NightContext, since: datetime | None
) -> tuple[Harvest, tuple[RecordedSession, ...]]:
    """All sessions of the sources that are to be read, and those of them that belong to the project."""
    settings = context.settings
    most = settings.max_sessions_per_night or MOST_SESSIONS
    sources = sources_of(settings, context.homes)
    found = harvest(sources, since, redact_transcript, most=most)
    if len(sources) > 1 and settings.transcript_source.strip() in ("", "auto"):
        names = ", ".join(source.name for source in sources)
        note = f"The transcripts of {names} were read; `--source {sources[0].name}` reads those of one."
        found = replace(found, notes=(*found.notes, note))
    personal = personal_skills(context)
    return found, tuple(
        replace(
            session,
            project=_repository(session.project, context.project),
            folder=session.project,
            skills=_named_once(session),
        )
        for session in found.sessions
        if settings.projects == "all"
        or _belongs(session.project, context.project)
        or home_of(session, personal) != session.project
    )


def _named_once(session: RecordedSession) -> tuple[str, ...]:
    """The skills of a session; one of a plug-in goes by its whole name (`tools:minutes`) alone."""
    every = session.skills
    return tuple(name for name in every if not any(other.endswith(f":{name}") for other in every))


def personal_skills(context: NightContext) -> frozenset[str]:
    """The person's own skills by name, which all projects share; a project's own of a name comes first."""
    places = context.places
    own = [root for root in places.skills if is_within(str(root), context.project)]
    further = [root for root in places.skills if root not in own]
    names = {path.parent.name for root in further for path in root.glob("*/SKILL.md")}
    return frozenset(name for name in names if not any((root / name / "SKILL.md").is_file() for root in own))


async def gather(
    context: NightContext, since: datetime | None, asking: ModelMining | None = None, *, replays: bool = False
) -> NightInput:
    """Read sessions, mine tasks and sort them by skill. Without `asking` no model is called and nothing is
    written. `replays` allows tasks that an agent repeats in a checkout of the repository.
    """
    settings = context.settings
    past = [
        task
        for task in remembered_tasks(earlier_nights(context.kept, context.kept.load().night + 1))
        if task.worktree is None or (replays and task.worktree.is_there)
    ]
    if context.tasks is not None:
        return _from_file(context, context.tasks)
    begun = None if asking is None or asking.fresh else PinnedSessions.load(asking.folder, asking.terms)
    found, sessions = read_sessions(context, since if begun is None else begun.since)
    if begun is not None:
        found, sessions = begun.as_then(found, sessions)
    known, personal = context.home.readings.of(sessions), personal_skills(context)
    find = Worktrees().find if replays else None
    mining = partial(mine, sessions, personal=personal, remembered=past, find=find, settings=settings)
    check_skills((one.skills for one in sessions), settings, context.places)
    notes: list[str] = []
    cost = None
    if asking is None or not sessions:
        mined = await mining(readings=known)
    else:
        if begun is None:
            pins = {session.name: (len(session.turns), session.ended) for session in sessions}
            PinnedSessions(terms=asking.terms, since=since, next_since=found.next_since, sessions=pins).save(
                asking.folder
            )
        mined, cost = await _mine_with_model(sessions, asking, context, known, mining)
        known = context.home.readings.of(sessions)
    left = unread(sessions, known)
    if left and asking is None:
        notes.append(
            f"No model has read {count(len(left), 'session')} yet, so what they teach is not in this: a night"
            " reads them, and so does `harvest --output` with --model."
        )
    places, elsewhere = near_agents(context.places, context.project, mined.used)
    targets, more = targets_for(mined.tasks, settings, places, past)
    is_new = any(target.before is None for target in targets)
    used = {task.id for target in targets for task in target.tasks}
    return replace(
        mined,
        harvest=found,
        sessions=sessions,
        targets=tuple(targets),
        notes=(*mined.notes, *more, *notes, *([elsewhere] if elsewhere and is_new else [])),
        waiting=tuple(task for task in mined.tasks if task.id not in used),
        cost=cost,
        unread=tuple(left),
    )


async def _mine_with_model(
    sessions: Sequence[RecordedSession],
    asking: ModelMining,
    context: NightContext,
    known: dict[str, SessionReading],
    mining: Callable[..., Awaitable[NightInput]],
) -> tuple[NightInput, Cost]:
    """What the sessions hold, read by a model, with the optimizer asked about every kind; and what that cost.

    Calls pass the same stack as those of a run, in folders of their own: recorded before they are used,
    limited, within their share of the allowance. Raises what stops a run, and before anything is paid what
    would stop the night's training.
    """
    reader, paid = asking.jobs.reader, total_cost(())
    notes: list[str] = []
    titles: dict[str, str] = {}

    @asynccontextmanager
    async def asked(jobs: NightJobs, name: str, doing: str) -> AsyncIterator[tuple[Model, OpenRun]]:
        """The model that is asked next, in an open run within its share of what is left."""
        nonlocal paid
        asking.say(doing)
        job = jobs.job(NO_SKILL, spent=paid, share=SHARE)
        identity = {name: 1, **run_identity(job.config, job.addresses)}
        # Other models or settings ask otherwise: their replies lie in a folder of their own.
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:10]
        async with open_run(job, asking.folder / f"{name}-{digest}", identity) as opened:
            try:
                yield opened.models.of("optimizer", job.optimizer), opened
            finally:
                await opened.drain()  # what is paid is kept
                paid = total_cost([paid, cost_of(opened)])

    with_reader = f"with {reader.roles.optimizer}"
    if wanted := unread(sessions, known)[-MOST_READ:]:
        doing = f"reading {len(wanted)} of {len(sessions)} sessions {with_reader}"
        async with asked(reader, "reading", doing) as (model, opened):
            read, notes = await read_with_model(model, wanted, context.home.readings, at_once(opened.job))
            known = {**known, **read}
    if len(lines := lines_of(sessions, known)) > 1:
        doing = f"sorting {len(lines)} sorts of requests into kinds {with_reader}"
        async with asked(reader, "kinds", doing) as (model, _):
            try:
                titles = await kinds_with_model(model, lines)
            except BudgetSpent:
                notes.append(
                    "Tonight's allowance for reading did not pay for kinds: they are found by words."
                )
    if not context.settings.llm_mine:
        mined = await mining(readings=known, titles=titles)
        return replace(mined, notes=(*notes, *mined.notes)), paid
    doing = f"asking {asking.jobs.roles.optimizer} how answers to each kind can be measured"
    async with asked(asking.jobs, "mining", doing) as (model, opened):
        spec = opened.job.judge
        assert spec is not None, "its tasks have rubrics"
        judge = ModelJudge(opened.models.of("judge", spec), max_tokens=spec.max_tokens, stage="mine")
        mined = await mining(readings=known, titles=titles, model=model, judge=judge)
    return replace(mined, notes=(*notes, *mined.notes)), paid


def lines_of(sessions: Iterable[RecordedSession], readings: Mapping[str, SessionReading]) -> list[str]:
    """What the requests are about, as far as a model read them, each once."""
    read = ((session, readings.get(session.name)) for session in sessions)
    found = (one.about for session, reading in read if reading for one in requests_of(session, reading))
    return sorted({about for about in found if about})


def at_once(job: Job) -> int:
    """How many sessions the reader of this job is asked about together; a small model mixes them up."""
    return 1 if job.asks_small else AT_ONCE


NO_SKILL = NightTarget(
    name="mining",
    path=Path(),
    before=None,
    seed="",
    tasks=tuple(
        NightTask(id=split, kind="", prompt=split, split=split, rubric="It is never asked.")
        for split in ("train", "val")
    ),
)
"""A folder is opened for a job, and a job has tasks; mining rolls none of them out."""


def _from_file(context: NightContext, file: TasksFile) -> NightInput:
    standing, note = standing_of(file.tasks)
    targets, notes = targets_for(file.tasks, context.settings, context.places)
    if file.project and file.project != str(context.project):
        notes.append(f"{file.path} was written for {file.project}; its tasks are used for {context.project}.")
    return NightInput(
        tasks=file.tasks,
        standing=standing,
        note=f"{note} They are those of {file.path}.",
        targets=tuple(targets),
        notes=tuple(notes),
    )


def _belongs(folder: str, project: Path) -> bool:
    """Whether a session's folder is the project's or below it, also by way of a link."""
    return is_within(folder, project) or (
        Path(folder).is_absolute() and is_within(os.path.realpath(folder), project)
    )


def _repository(folder: str, project: Path) -> str:
    """The project of a session: that of the night for all folders below it, else the repository it is in."""
    if _belongs(folder, project):
        return str(project)
    path = Path(folder)
    roots = (one for one in (path, *path.parents) if path.is_absolute() and (one / ".git").exists())
    return str(next(roots, folder))
