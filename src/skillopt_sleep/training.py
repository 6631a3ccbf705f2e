"""What a night does for one skill: training, saved at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Protocol

from skillopt import run
from skillopt.errors import BudgetSpent, UsageError
from skillopt.evaluation.compare import compare
from skillopt.evaluation.significance import significance
from skillopt.events import Checkpoint, EpochEnded, Event, Judged, Row, Sink, StageClosed, Updated
from skillopt.events.place import BASELINE, Place
from skillopt.events.records import SlowUpdateRecord, StepRecord
from skillopt.events.state import State
from skillopt.gate.gate import SkillMeasurement
from skillopt.run import Job, OpenRun, Result, open_run
from skillopt.runs.words import count
from skillopt.skill.document import Document
from skillopt.skill.edits import OPS, apply
from skillopt.skill.store import Skills
from skillopt_sleep.context import NightContext
from skillopt_sleep.drafts import drafts_of, proposed_files
from skillopt_sleep.job import NightJobs, cost_of
from skillopt_sleep.judgement import (
    AnswerPair,
    Cost,
    EditEvidence,
    Judgement,
    TaskScores,
    mean_gain,
    total_cost,
)
from skillopt_sleep.plan import NightPlan, NightTarget, SkillOutcome

UNMEASURED, REFUSED = "not measured", "refused"
"""Actions beside the gate's: nothing was measured, or what it accepted may not be staged."""


class NightObserver(Protocol):
    """Follows a night: what it does before its runs, and the runs while they train."""

    def say(self, doing: str) -> None:
        """Report in one line what the night starts to do."""
        ...

    def sinks(self, job: Job) -> Sequence[Sink]:
        """Who hears the events of a run."""
        ...

    def during(self, opened: OpenRun) -> AbstractContextManager[None]:
        """A context manager that is active while a run trains, so that a signal can stop the run."""
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
            proposed_files(drafts_of(target, outcome), self.context.places.roots)
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


def _unmeasured(why: str, cost: Cost | None = None) -> SkillOutcome:
    judged = Judgement(action=UNMEASURED, verified=False, why=why)
    return SkillOutcome(claim=why, judgement=judged, cost=cost or total_cost(()))


_TAKEN = ("accept", "accept_new_best", "force_accept")
SUGGESTION = "suggestion"
"""The action for what is better by form alone: it is proposed as something that nobody measured."""
_SHOWN = 1_500
_QUOTES, _QUOTED = 4, 300
"""What the person said that is quoted with an edit, and characters of each."""


def outcome_of(opened: OpenRun, result: Result, target: NightTarget) -> SkillOutcome:
    """What is proposed for a skill, and why; without a better text there are no changes."""
    state, skills, carried = result.state, opened.run.skills, target.carried
    pairs = tuple(_pairs(result.seed_on_val, result.best_on_val, target))
    counted = [pair for pair in pairs if pair.telling] or pairs
    # What an earlier night proposed is where training started; tonight's tasks may say that it is no better.
    found = state.best != state.seed and (state.best_score or 0.0) > (state.baseline_score or 0.0)
    gains = [pair.gain for pair in counted if pair.gain is not None]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    changed = found and better > worse
    history = list(opened.run.history())
    verdicts = [event for event in history if isinstance(event, Judged)]
    deciding = next(
        (one for one in reversed(verdicts) if one.action == "accept"), verdicts[-1] if verdicts else None
    )
    why = deciding.why if deciding is not None else result.summary.get("stopped_because")
    if carried is not None and not changed:
        why = "what an earlier night proposed is no better on tonight's held-out tasks, and nothing else is"
    elif opened.job.start is not None and state.best == opened.job.start.digest:
        why = "what an earlier night proposed was measured again, and tonight found nothing better"
    if found and not changed:
        why = f"of {count(len(gains), 'held-out task')} {better} got better with it and {worse} worse"
    is_shown = any(pair.telling for pair in pairs)
    action = "no change" if not changed else "accept" if is_shown else SUGGESTION
    if action == SUGGESTION:
        why = "nothing shows that it helps: every held-out task sees form alone, which a lazy answer has too"
    texts = sum(one.rows_used > 0 for one in verdicts) + (1 + carried.judgement.tried if carried else 0)
    p = chance_of(pairs, texts) if changed else None
    judgement = Judgement(
        action=action,
        verified=significance(mean_gain(pairs), p) == "real",
        why=why or "no candidate was measured",
        before=_mean(pair.before for pair in counted),
        after=_mean(pair.after for pair in counted),
        metric=str(state.metric),
        policy=opened.job.config.gate.policy,
        gate_on=opened.job.config.evaluation.use_gate,
        example=_example(opened, history, target) if changed else None,
        pairs=pairs,
        p=p,
        tried=max(1, texts),
    )
    # Edits that were applied to a candidate and are not in the skill.
    records = [
        event.record
        for event in history
        if isinstance(event, Checkpoint) and isinstance(event.record, StepRecord)
    ]
    tried = sum(record.edit_states.get("applied", 0) for record in records)
    kept = sum(record.edit_apply_summary.applied for record in records if record.action in _TAKEN)
    return SkillOutcome(
        claim=result.claim,
        judgement=judgement,
        cost=cost_of(opened),
        edits=tuple(
            one.model_copy(update={"measured": is_shown}) for one in _edits(history, skills, state, target)
        )
        if changed
        else (),
        rejected=tried - kept,
        refused=tuple(_refused(history)),
        notes=tuple(_slow_update(history, target)),
    )


def chance_of(pairs: Sequence[TaskScores], tried: int) -> float | None:
    """How often chance alone would make one of so many tried texts as much better on these tasks, by the
    exact paired test; None where no task tells. Tasks that an answer to another request could pass are left
    out.
    """
    rows = [pair for pair in pairs if pair.telling and pair.gain is not None]
    if not rows:
        return None
    before, after = ({row.task: getattr(row, side) for row in rows} for side in ("before", "after"))
    # Each text that was measured, and each night that measured it again, had its own chance to look good.
    return min(1.0, max(1, tried) * compare(before, after, one_sided=True).p)


def _example(opened: OpenRun, history: Sequence[Event], target: NightTarget) -> AnswerPair | None:
    """The held-out request whose answer gained most, with its first answer and its best."""
    formal = target.formal
    held = {task.id: task.prompt for task in target.tasks if task.split == "val" and task.id not in formal}
    rows: dict[str, list[Row]] = defaultdict(list)
    closed = [event for event in history if isinstance(event, StageClosed)]
    # The skill as it is comes first, also where what an earlier night proposed was measured before it.
    for event in sorted(closed, key=lambda event: event.place != BASELINE):
        for row in event.rows:
            if row.task in held and row.rollout is not None and row.soft is not None:
                rows[row.task].append(row)
    gains = {task: (each[0], max(each, key=lambda row: row.soft or 0.0)) for task, each in rows.items()}
    gained = {task: (best.soft or 0.0) - (first.soft or 0.0) for task, (first, best) in gains.items()}
    most = max(gained, key=lambda task: gained[task], default=None)
    if most is None:
        return None
    stored = [opened.run.database.finished(row.rollout or "") for row in gains[most]]
    answers = [done[1].answer[:_SHOWN] for done in stored if done is not None]
    if len(answers) != 2 or answers[0] == answers[1]:
        return None
    return AnswerPair(request=held[most][:_SHOWN], before=answers[0], after=answers[1])


def _refused(history: Sequence[Event]) -> Iterator[str]:
    """What the edits of candidates that were not taken would have added."""
    updates = {event.place: event for event in history if isinstance(event, Updated)}
    for event in history:
        if not (isinstance(event, Checkpoint) and isinstance(event.record, StepRecord)):
            continue
        update = updates.get(Place.parse(event.id or "").root)
        if event.record.action not in _TAKEN and update is not None:
            for one in update.outcomes:
                if one.state == "applied" and one.edit.op in OPS and (added := one.edit.content.strip()):
                    yield added[:_QUOTED]


def _slow_update(history: Sequence[Event], target: NightTarget) -> Iterator[str]:
    """What became of the slow update, where there was something to look back to."""
    if target.earlier is None:
        return
    ended = [event.slow_update for event in history if isinstance(event, EpochEnded)]
    if not ended:
        yield "no slow update: training ended before it."
    for one in ended[:1]:
        compared = f"slow update, compared with the text before night {target.earlier.night}"
        yield f"{compared}: {one.action}" + (f" ({one.why})." if one.why else ".")


def _edits(
    history: Sequence[Event], skills: Skills, final: State, target: NightTarget
) -> Iterator[EditEvidence]:
    """Every accepted edit up to the best skill, in the order in which they were taken."""
    current = final.seed
    if target.carried is not None:
        yield from target.carried.edits
        current = Document.of(target.carried.edits[-1].text).digest
        if current == final.best:
            return
    updates: dict[Place, Updated] = {}
    failed: dict[Place, list[str]] = {}
    longer = SlowUpdateRecord(action="off")
    for event in history:
        if isinstance(event, Updated):
            updates[event.place] = event
        elif isinstance(event, StageClosed) and event.stage == "rollout":
            failed[event.place] = [row.task for row in event.rows if row.hard is not None and row.hard < 1]
        elif isinstance(event, EpochEnded):
            longer = event.slow_update
        elif isinstance(event, Checkpoint) and event.kind in ("step", "epoch"):
            place, after = Place.parse(event.id or "").root, event.state.skill
            if after != current and isinstance(event.record, StepRecord):
                about = _about(place, failed.get(place, ()), target)
                yield from _step(
                    skills.get(current), skills.get(after), updates.get(place), event.record, about
                )
            elif after != current:
                edit = {"op": "slow_update", "content": longer.slow_update_content}
                why = (longer.reasoning or "")[:500]
                yield EditEvidence(text=skills.get(after).whole, edit=edit, place=str(place), why=why)
            current = after
            if current == final.best:
                return


def _step(
    before: Document, after: Document, update: Updated | None, record: StepRecord, about: EditEvidence
) -> Iterator[EditEvidence]:
    """The edits of a step one at a time, where they lead to its text so; else the step as one change."""
    taken = [one for one in (update.outcomes if update is not None else ()) if one.state == "applied"]
    if record.accepted is not None:
        taken = [one for one in taken if one.id in record.accepted.edits]
    edits = [one.edit for one in taken]
    texts = [apply(edits[:count], before).document.whole for count in range(1, len(edits) + 1)]
    if not texts or texts[-1] != after.whole:
        yield about.model_copy(update={"text": after.whole})
        return
    for edit, text in zip(edits, texts, strict=True):
        why = str(edit.evidence.get("rationale") or edit.evidence.get("reasoning") or "")[:500]
        yield about.model_copy(update={"text": text, "edit": edit.as_json(), "why": why})


def _about(place: Place, failed: Sequence[str], target: NightTarget) -> EditEvidence:
    tasks = {task.id: task for task in target.tasks}
    about = [tasks[id] for id in dict.fromkeys(failed) if id in tasks]
    about.sort(key=lambda task: not task.objections)
    quoted = {task.objections[-1][:_QUOTED]: task for task in reversed(about) if task.objections}
    quotes = dict(list(quoted.items())[::-1][:_QUOTES])
    sessions = [*(task.sessions[0] for task in quotes.values() if task.sessions)]
    sessions += [session for task in about for session in task.sessions]
    return EditEvidence(
        place=str(place),
        tasks=tuple(task.id for task in about),
        sessions=tuple(dict.fromkeys(sessions)),
        quotes=tuple(quotes),
    )


def _pairs(seed: SkillMeasurement, best: SkillMeasurement, target: NightTarget) -> Iterator[TaskScores]:
    """Each held-out task with both texts, the mean over its draws."""
    tasks = {task.id: task for task in target.tasks}
    before, after = _means(seed), _means(best)
    for id in sorted({*before, *after}):
        scores = {"before": before.get(id), "after": after.get(id)}
        yield TaskScores(task=id, title=tasks[id].kind, telling=not tasks[id].form_alone, **scores)


def _mean(scores: Iterable[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


def _means(measured: SkillMeasurement) -> dict[str, float]:
    rows: dict[str, list[Fraction]] = defaultdict(list)
    for (task, _), value in measured.values.items():
        rows[task].append(value)
    return {task: float(sum(values, Fraction(0)) / len(values)) for task, values in rows.items()}
