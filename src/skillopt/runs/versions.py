"""Every version of a skill that a run tried, made from the events of its closed sections: what was proposed,
how the gate ruled, and how each val task went.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

from skillopt.events import (
    EpochEnded,
    HandedOver,
    Judged,
    Minibatch,
    Pruned,
    Reflected,
    Row,
    StageClosed,
    Updated,
)
from skillopt.events.place import BASELINE, START, Place
from skillopt.events.records import EpochRecord, StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.decision import value, worth_of
from skillopt.gate.gate import STAGE
from skillopt.runs.fold import LogSection
from skillopt.runs.words import START_NAME, count, score
from skillopt.skill.diff import unified
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Outcome
from skillopt.skill.store import Skills
from skillopt.tasks.rollout import Score

LONGEST_DETAIL = 400
"""Error texts are cut here; the log holds them in full."""
Mark = Literal["not evaluated", "pass", "partial", "fail", "invalid"]
"""How a task went with a version."""
_ORDER: Mapping[Mark, int] = {"fail": 0, "partial": 1, "pass": 2}


@dataclass(frozen=True, kw_only=True)
class SkillVersion:
    """The seed, or one attempt to change the skill: a step, the slow update of an epoch, what an open step
    handed over, or the pruning at the end. The events say what happened; beside them stands what they share.
    """

    name: str
    short: str
    at: float
    """Where it stands on the axis of steps; what is no closed step stands between two of them."""
    epoch: int
    action: str
    why: str
    score: float | None
    """The current skill's val score after the verdict."""
    candidate: float | None = None
    """Its own val score, where it was measured in full."""
    incumbent: float | None = None
    """The score it was compared with."""
    text: str = ""
    """The skill as the target got it; empty where it was not measured or the log does not hold it."""
    diff: str = ""
    """What it did to the skill; empty where it was not taken."""
    tried: str = ""
    """What a rewrite that was not taken would have done to it."""
    train: float | None = None
    """Mean of the step's rollouts, made with the skill before it."""
    train_rows: int = 0
    rows: Mapping[str, Sequence[Row]]
    """The val rows by task, as far as the verdict needed them; empty where nothing was measured."""
    record: StepRecord | None = None
    ended: EpochEnded | None = None
    judged: Judged | None = None
    """The verdict on the candidate that it closed on."""
    outcomes: Sequence[Outcome] = ()
    patches: Sequence[Minibatch] = ()
    lost: Sequence[tuple[str, Row]] = ()
    """Rows that could not be measured, with their stages."""
    metric: Metric
    weight: float
    """That of the soft score in a mixed one."""

    @cached_property
    def marks(self) -> Mapping[str, Mark]:
        """How each val task went, of those that were run with it."""
        return {task: mark_of(rows, self.metric, self.weight) for task, rows in self.rows.items()}

    @property
    def is_taken(self) -> bool:
        """Whether it became the current skill."""
        return self.short == "seed" or bool(self.diff)

    @property
    def reached(self) -> float | None:
        """Its val score, or the most that it could still have reached."""
        return self.judged.bound if self.candidate is None and self.judged else self.candidate

    def state_of(self, outcome: Outcome) -> str:
        """How a proposal ended: `left_out` where only a part of the bundle that held it was accepted."""
        accepted = None if self.record is None else self.record.accepted
        is_left_out = accepted and outcome.state == "applied" and outcome.id not in accepted.edits
        return "left_out" if is_left_out else outcome.state

    def reason_of(self, outcome: Outcome) -> str:
        """Why a proposal ended so."""
        is_left_out = self.state_of(outcome) == "left_out"
        return "not in the candidate that was accepted" if is_left_out else outcome.reason


def versions_of(section: LogSection, skills: Skills, weight: float) -> Sequence[SkillVersion]:
    """The versions that a closed section of a log made, or what was handed over in an open one; none, one, or
    at the baseline two. `weight` is that of the soft score where the gate reads a mixed one.
    """
    checkpoint, after, before = section.closed_by, section.after, section.before
    made: dict[str, Any] | None
    found = next((event for event in section.events if isinstance(event, HandedOver | Pruned)), None)
    if before is not None and found is not None:
        made = _better_skill(found, before, skills)
        return [SkillVersion(**made, metric=before.metric, weight=weight)] if made["diff"] else ()
    assert checkpoint is not None and after is not None, "an open section is read when it closes"
    if checkpoint.kind == "baseline":
        first = [_seed(section, after, skills), _start(section, after, skills)]
        return [SkillVersion(**made, metric=after.metric, weight=weight) for made in first if made]
    made = None if before is None else _attempt(section, before, after, skills, weight)
    return () if made is None else [SkillVersion(**made, metric=after.metric, weight=weight)]


def _difference(skills: Skills, before: str, after: str, name: str = "after") -> str:
    return unified(skills.get(before).rendered, skills.get(after).rendered, "before", name)


def _seed(section: LogSection, after: State, skills: Skills) -> dict[str, Any]:
    return {
        "name": "the seed skill",
        "short": "seed",
        "at": 0.0,
        "epoch": 0,
        "action": "baseline",
        "why": "",
        "score": after.baseline_score,
        "candidate": after.baseline_score,
        "text": skills.get(after.seed).rendered,
        "rows": _val_rows(section, BASELINE),
    }


def _start(section: LogSection, after: State, skills: Skills) -> dict[str, Any] | None:
    """The skill that training begins with, where earlier rounds or another run wrote it."""
    if not (diff := _difference(skills, after.seed, after.skill)):
        return None
    return {
        "name": START_NAME,
        "short": "start",
        "at": 0.5,
        "epoch": 0,
        "action": "start",
        "why": f"val {score(after.score)} where the seed has {score(after.baseline_score)}",
        "score": after.score,
        "candidate": after.score,
        "incumbent": after.baseline_score,
        "text": skills.get(after.skill).rendered,
        "diff": diff,
        "rows": _val_rows(section, START),
    }


def _better_skill(found: HandedOver | Pruned, before: State, skills: Skills) -> dict[str, Any]:
    """A better skill that no step closed on: of an open step that the budget ended, or of the pruning."""
    if isinstance(found, HandedOver):
        labels: dict[str, Any] = {
            "name": f"open step {found.place.step}",
            "short": "open",
            "epoch": found.place.epoch,
            "action": "accept",
            "why": found.why,
            "incumbent": found.incumbent,
        }
    else:
        out = sum(line.removed for line in found.lines)
        labels = {
            "name": "pruning",
            "short": "pruned",
            "epoch": before.epoch,
            "action": "pruned",
            "why": f"{out} of {count(len(found.lines), 'learned line')} left out",
            "incumbent": before.best_score,
        }
    return labels | {
        "at": before.step + 0.75,
        "score": found.score,
        "candidate": found.score,
        "text": skills.get(found.skill).rendered,
        "diff": _difference(skills, before.best, found.skill),
        "rows": _by_task(found.rows),
    }


def _attempt(
    section: LogSection, before: State, after: State, skills: Skills, weight: float
) -> dict[str, Any] | None:
    """A step or the slow update of an epoch; None where the section is neither."""
    record = None if section.closed_by is None else section.closed_by.record
    ended = next(iter(section.of(EpochEnded)), None)
    if isinstance(record, StepRecord):
        labels = _step_labels(section, record, before, after, skills, weight)
    elif isinstance(record, EpochRecord) and ended is not None and ended.slow_update.why is not None:
        labels = {
            "name": f"slow update of epoch {ended.epoch}",
            "short": f"E{ended.epoch}",
            "at": after.step + 0.5,
            "epoch": ended.epoch,
            "action": ended.slow_update.action,
            "why": ended.slow_update.why,
            "ended": ended.model_copy(update={"pairs": []}),  # which are large
        }
    else:
        return None
    verdicts = section.of(Judged)
    # The candidate that a step closes on is the last one that was accepted, else the first.
    accepted = [verdict for verdict in verdicts if verdict.action == "accept"]
    judged = next(iter([*accepted[-1:], *verdicts]), None)
    rows = _val_rows(section, None if judged is None else judged.place)
    skill = judged_skill(section, judged.place, skills) if judged is not None and rows else None
    return labels | {
        "score": after.score,
        "candidate": None if judged is None else judged.candidate,
        "incumbent": None if judged is None else judged.incumbent,
        "text": "" if skill is None else skill.rendered,
        "diff": "" if before.skill == after.skill else _difference(skills, before.skill, after.skill),
        "rows": rows,
        "judged": judged,
        "lost": [(one.stage, row) for one in section.of(StageClosed) for row in one.rows if row.invalid],
    }


def _step_labels(
    section: LogSection, record: StepRecord, before: State, after: State, skills: Skills, weight: float
) -> dict[str, Any]:
    """What a step is called and was made from."""
    rows = [row for stage in section.of(StageClosed) if stage.stage == "rollout" for row in stage.rows]
    scored = [worth for row in rows if (worth := worth_of(row, after.metric, weight)) is not None]
    updated, tried = next(iter(section.of(Updated)), None), ""
    if updated is not None and updated.rewrite is not None and before.skill == after.skill:
        # A rewrite that was not taken: its proposals do not say what it would have changed.
        tried = _difference(skills, before.skill, updated.skill, "candidate")
    return {
        "name": f"step {record.step}",
        "short": str(record.step),
        "at": float(record.step),
        "epoch": record.epoch,
        "action": record.action,
        "why": record.why,
        "record": record,
        "train": float(sum(scored, Fraction(0)) / len(scored)) if scored else None,
        "train_rows": len(scored),
        "outcomes": () if updated is None else updated.outcomes,
        "patches": [patch for event in section.of(Reflected) for patch in event.patches],
        "tried": tried,
    }


def judged_skill(section: LogSection, place: Place, skills: Skills) -> Document | None:
    """The skill that a verdict was about: a candidate, or one with an epoch's guidance; None if unknown."""
    for updated in section.of(Updated):
        if updated.place == place:
            return skills.get(updated.skill)
    ended = next(iter(section.of(EpochEnded)), None)
    if ended is None or section.before is None:
        return None
    guidance = ended.slow_update.slow_update_content or ""
    return skills.get(section.before.skill).with_region("slow_update", guidance)


def _val_rows(section: LogSection, place: Place | None) -> Mapping[str, Sequence[Row]]:
    """The rows that the gate read at a place, or anywhere in the section."""
    stages = [one for one in section.of(StageClosed) if one.stage == STAGE]
    return _by_task(next((one.rows for one in stages if place is None or one.place == place), ()))


def _by_task(rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    found: dict[str, tuple[Row, ...]] = {}
    for row in rows:
        found[row.task] = (*found.get(row.task, ()), row)
    return found


def mark_of(rows: Sequence[Row], metric: Metric, weight: float) -> Mark:
    """How a task went by the mean of its draws."""
    if not rows:
        return "not evaluated"
    if any(row.invalid is not None for row in rows):
        return "invalid"
    mean = _mean(tuple((row.hard or 0.0, row.soft or 0.0) for row in rows), metric, weight)
    return "pass" if mean >= 1 else "fail" if mean <= 0 else "partial"


def note_of(rows: Sequence[Row], metric: Metric, weight: float) -> str:
    """What there is to say of how a task went: the error, the target's own failure, or the score between."""
    if not rows:
        return ""
    if lost := [f"{row.invalid}: {cut(row.detail)}" for row in rows if row.invalid is not None]:
        return "; ".join(lost)
    failures = "; ".join(dict.fromkeys(row.failure for row in rows if row.failure))
    mean = _mean(tuple((row.hard or 0.0, row.soft or 0.0) for row in rows), metric, weight)
    return failures or (f"{float(mean):.3f}" if 0 < mean < 1 else "")


@lru_cache(maxsize=4096)
def _mean(draws: tuple[tuple[float, float], ...], metric: Metric, weight: float) -> Fraction:
    values = [value(Score(hard=hard, soft=soft), metric, weight) for hard, soft in draws]
    return sum(values, Fraction(0)) / len(values)


def cut(text: str) -> str:
    """An error text as long as a person may want to read."""
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]} ..."


def moved(before: Mapping[str, Mark], after: Mapping[str, Mark]) -> tuple[list[str], list[str]]:
    """Tasks that went better, and worse, of those measured both times."""
    changes = {task: change_of(before.get(task), mark) for task, mark in after.items()}
    better = [task for task, change in changes.items() if change > 0]
    return better, [task for task, change in changes.items() if change < 0]


def change_of(before: Mark | None, after: Mark | None) -> int:
    """How much better a task went; what was not measured with both did not move."""
    if before is None or after is None or not {before, after} <= _ORDER.keys():
        return 0
    return _ORDER[after] - _ORDER[before]


def studies_behind(edit: Edit, version: SkillVersion) -> list[Minibatch]:
    """What the analysts had before them who proposed an edit that a version applied."""
    analysts = _analysts(edit, version.outcomes)
    return [patch for patch in sorted(version.patches, key=_name_of) if _name_of(patch) in analysts]


def _name_of(patch: Minibatch) -> str:
    return f"{patch.kind} {patch.index}"


def _analysts(edit: Edit, outcomes: Sequence[Outcome]) -> Collection[str]:
    """The studies an edit goes back to, through merges and repairs; of a merge those that say the same."""
    found: set[str] = set()
    seen = {edit.id}
    waiting = [edit]
    while waiting:
        one = waiting.pop()
        text = one.id.partition("#")[0]
        place = Place.parse(text)
        kind = place.stage.removeprefix("analyst_")
        if kind in ("failure", "success") and place.item.isdigit() and place.attempt is None:
            found.add(f"{kind} {place.item}")
            continue
        is_repair = place.stage == "repair"  # its inputs ended as what made the repair necessary
        inputs = [
            other.edit
            for other in outcomes
            if other.id not in seen
            and (
                other.state in ("unmatched", "ambiguous") if is_repair else other.reason.endswith(f" {text}")
            )
        ]
        same = [other for other in inputs if other.content.strip() == one.content.strip()]
        waiting += same or inputs
        seen |= {other.id for other in inputs}
    return found


def patterns_of(patch: Minibatch) -> list[str]:
    """What an analyst saw, a sentence each."""
    return [
        ", ".join(f"{str(key).replace('_', ' ')}: {item}" for key, item in one.items())
        if isinstance(one, Mapping)
        else json.dumps(one, ensure_ascii=False)
        for one in patch.summary
    ]
