"""Every version of a skill that a run tried, made from the events of its closed sections: what was proposed,
how the gate ruled, and how each val task went.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from skillopt.events import (
    Checkpoint,
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


class VersionBuilder:
    """Builds the versions of a skill from closed sections of a log."""

    def __init__(self, skills: Skills, weight: float = 0.5) -> None:
        """`weight` is that of the soft score where the gate reads a mixed one."""
        self.skills = skills
        self.weight = weight

    def __call__(self, section: LogSection) -> Sequence[SkillVersion]:
        checkpoint, after = section.closed_by, section.after
        for found in section.events:
            if isinstance(found, HandedOver | Pruned) and section.before is not None:
                return self._found(found, section.before)
        assert checkpoint is not None and after is not None, "an open section is told when it closes"
        if checkpoint.kind == "baseline":
            return self._begun(section, after)
        if section.before is None:
            return ()
        verdicts = section.of(Judged)
        # The candidate that a step closes on is the last one that was accepted, else the first.
        accepted = [one for one in verdicts if one.action == "accept"]
        judged = next(iter([*accepted[-1:], *verdicts]), None)
        about = self._labels(section, checkpoint, after)
        if about is None:
            return ()
        rows = _val_rows(section, None if judged is None else judged.place)
        skill = judged_skill(section, judged.place, self.skills) if judged is not None and rows else None
        diff, lost = "", [one for one in section.of(StageClosed) if any(row.invalid for row in one.rows)]
        if section.before.skill != after.skill:
            diff = self._difference(section.before.skill, after.skill)
        version = SkillVersion(
            **about,
            score=after.score,
            candidate=None if judged is None else judged.candidate,
            incumbent=None if judged is None else judged.incumbent,
            text="" if skill is None else skill.rendered,
            diff=diff,
            rows=rows,
            judged=judged,
            lost=[(one.stage, row) for one in lost for row in one.rows if row.invalid],
        )
        return [version]

    def rendered(self, digest: str) -> str:
        """The text of a skill that the log names, as the target gets it."""
        return self.skills.get(digest).rendered

    def _difference(self, before: str, after: str, name: str = "after") -> str:
        return unified(self.rendered(before), self.rendered(after), "before", name)

    def _begun(self, section: LogSection, after: State) -> Sequence[SkillVersion]:
        """The seed; and the skill that training begins with, where earlier rounds or another run wrote it."""
        seed = SkillVersion(
            name="the seed skill",
            short="seed",
            at=0.0,
            epoch=0,
            action="baseline",
            why="",
            score=after.baseline_score,
            candidate=after.baseline_score,
            text=self.rendered(after.seed),
            rows=_val_rows(section, BASELINE),
        )
        if not (diff := self._difference(after.seed, after.skill)):
            return [seed]
        start = SkillVersion(
            name=START_NAME,
            short="start",
            at=0.5,
            epoch=0,
            action="start",
            why=f"val {score(after.score)} where the seed has {score(after.baseline_score)}",
            score=after.score,
            candidate=after.score,
            incumbent=after.baseline_score,
            text=self.rendered(after.skill),
            diff=diff,
            rows=_val_rows(section, START),
        )
        return [seed, start]

    def _found(self, found: HandedOver | Pruned, before: State) -> Sequence[SkillVersion]:
        """A better skill that no step closed on: of an open step that the budget ended, or of the pruning."""
        if not (diff := self._difference(before.best, found.skill)):
            return ()
        if isinstance(found, HandedOver):
            epoch, incumbent, why = found.place.epoch, found.incumbent, found.why
            name, short, action = f"open step {found.place.step}", "open", "accept"
        else:
            epoch, incumbent = before.epoch, before.best_score
            out = sum(line.removed for line in found.lines)
            name, short, action = "pruning", "pruned", "pruned"
            why = f"{out} of {count(len(found.lines), 'learned line')} left out"
        version = SkillVersion(
            name=name,
            short=short,
            at=before.step + 0.75,
            epoch=epoch,
            action=action,
            why=why,
            score=found.score,
            candidate=found.score,
            incumbent=incumbent,
            text=self.rendered(found.skill),
            diff=diff,
            rows=_by_task(found.rows),
        )
        return [version]

    def _labels(self, section: LogSection, checkpoint: Checkpoint, after: State) -> dict[str, Any] | None:
        """What a step, or the slow update of an epoch, is called and was made from; None for neither."""
        record, before = checkpoint.record, section.before
        ended = next(iter(section.of(EpochEnded)), None)
        if isinstance(record, EpochRecord) and ended is not None and ended.slow_update.why is not None:
            return {
                "name": f"slow update of epoch {ended.epoch}",
                "short": f"E{ended.epoch}",
                "at": after.step + 0.5,
                "epoch": ended.epoch,
                "action": ended.slow_update.action,
                "why": ended.slow_update.why,
                "ended": ended.model_copy(update={"pairs": []}),  # which are large
            }
        if not isinstance(record, StepRecord) or before is None:
            return None
        rows = [row for one in section.of(StageClosed) if one.stage == "rollout" for row in one.rows]
        scored = [worth for row in rows if (worth := worth_of(row, after.metric, self.weight)) is not None]
        updated = next(iter(section.of(Updated)), None)
        tried = ""
        if updated is not None and updated.rewrite is not None and before.skill == after.skill:
            # A rewrite that was not taken: its proposals do not say what it would have changed.
            tried = self._difference(before.skill, updated.skill, "candidate")
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
            "patches": [patch for one in section.of(Reflected) for patch in one.patches],
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
    if any(row.invalid is not None for row in rows):
        return "invalid"
    mean = _mean(tuple((row.hard or 0.0, row.soft or 0.0) for row in rows), metric, weight)
    return "pass" if mean >= 1 else "fail" if mean <= 0 else "partial"


def note_of(rows: Sequence[Row], metric: Metric, weight: float) -> str:
    """What there is to say of how a task went: the error, the target's own failure, or the score between."""
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
    better: list[str] = []
    worse: list[str] = []
    for task, mark in after.items():
        was = before.get(task)
        if was is None or was not in _ORDER or mark not in _ORDER or was == mark:
            continue
        (better if _ORDER[mark] > _ORDER[was] else worse).append(task)
    return better, worse


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
