"""What a closed section of the log did to the skill: the change, and the version that was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from skillopt.events import (
    EpochEnded,
    HandedOver,
    Judged,
    Minibatch,
    Pruned,
    Reflected,
    RowFact,
    StageClosed,
    Updated,
)
from skillopt.events.place import BASELINE, START, Place
from skillopt.events.records import EpochRecord, StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.decision import value, worth_of
from skillopt.gate.gate import STAGE
from skillopt.runs.fold import LogSection
from skillopt.runs.values import Cell, EditFact, Mark, SkillChange, Study, Version
from skillopt.runs.words import START_NAME, count, score
from skillopt.skill.diff import unified
from skillopt.skill.document import Document
from skillopt.skill.edits import REWRITE, SUGGEST, Outcome
from skillopt.skill.store import Skills
from skillopt.tasks.rollout import Score

LONGEST_DETAIL = 400
"""Error texts are cut here; the log holds them in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFacts:
    """What is kept of a section: the change, where it made one, and the versions that were measured."""

    change: SkillChange | None = None
    versions: Sequence[Version] = ()


class ChangeBuilder:
    """Builds changes and versions from closed sections of a log."""

    def __init__(self, skills: Skills, weight: float = 0.5) -> None:
        """`weight` is that of the soft score where the gate reads a mixed one."""
        self.skills = skills
        self.weight = weight

    def __call__(self, section: LogSection) -> SectionFacts:
        checkpoint, after = section.closed_by, section.after
        for found in section.events:
            if isinstance(found, HandedOver | Pruned) and section.before is not None:
                return self._found(found, section.before)
        assert checkpoint is not None and after is not None, "an open section is told when it closes"
        if checkpoint.kind == "baseline":
            return self._begun(section, after)
        if section.before is None or not isinstance(checkpoint.record, (StepRecord, EpochRecord)):
            return SectionFacts()
        verdicts = section.of(Judged)
        # The candidate that a step closes on is the last one that was accepted, else the first.
        accepted = [one for one in verdicts if one.action == "accept"]
        judged = next(iter([*accepted[-1:], *verdicts]), None)
        if isinstance(checkpoint.record, StepRecord):
            change = self._step(section, section.before, after, checkpoint.record, judged)
        else:
            slow = self._slow_update(section, section.before, after, judged)
            if slow is None:
                return SectionFacts()
            change = slow
        place = None if judged is None else judged.place
        skill = None if place is None else judged_skill(section, place, self.skills)
        text = "" if skill is None else skill.rendered
        return SectionFacts(change=change, versions=self._version(section, place, change, text))

    def rendered(self, digest: str) -> str:
        """The text of a skill that the log names, as the target gets it."""
        return self.skills.get(digest).rendered

    def _begun(self, section: LogSection, after: State) -> SectionFacts:
        """The seed; and the skill that training begins with, where earlier rounds or another run wrote it."""
        seed, first = self.rendered(after.seed), self.rendered(after.skill)
        of_seed = SkillChange(
            name="the seed skill",
            short="seed",
            at=0.0,
            step=0,
            epoch=0,
            action="baseline",
            why="",
            candidate=after.baseline_score,
        )
        versions = self._version(section, BASELINE, of_seed, seed)
        if first == seed:
            return SectionFacts(versions=versions)
        start = SkillChange(
            name=START_NAME,
            short="start",
            at=0.5,
            step=0,
            epoch=0,
            action="start",
            why=f"val {score(after.score)} where the seed has {score(after.baseline_score)}",
            candidate=after.score,
            incumbent=after.baseline_score,
            score=after.score,
            diff=unified(seed, first, "before", "after"),
        )
        return SectionFacts(change=start, versions=[*versions, *self._version(section, START, start, first)])

    def _found(self, found: HandedOver | Pruned, before: State) -> SectionFacts:
        """A better skill that no step closed on: of an open step that the budget ended, or of the pruning."""
        best, text = self.rendered(before.best), self.rendered(found.skill)
        if text == best:
            return SectionFacts()
        if isinstance(found, HandedOver):
            step, epoch, incumbent = found.place.step, found.place.epoch, found.incumbent
            name, short, action, why = f"open step {step}", "open", "accept", found.why
        else:
            step, epoch, incumbent = before.step, before.epoch, before.best_score
            out = sum(line.removed for line in found.lines)
            name, short, action = "pruning", "pruned", "pruned"
            why = f"{out} of {count(len(found.lines), 'learned line')} left out"
        change = SkillChange(
            name=name,
            short=short,
            at=before.step + 0.75,
            step=step,
            epoch=epoch,
            action=action,
            why=why,
            candidate=found.score,
            incumbent=incumbent,
            score=found.score,
            diff=unified(best, text, "before", "after"),
        )
        return SectionFacts(change=change, versions=[self._measured(found.rows, before.metric, change, text)])

    def _step(
        self, section: LogSection, before: State, after: State, record: StepRecord, judged: Judged | None
    ) -> SkillChange:
        rows = [row for one in section.of(StageClosed) if one.stage == "rollout" for row in one.rows]
        scored = [worth for row in rows if (worth := worth_of(row, after.metric, self.weight)) is not None]
        updated = next(iter(section.of(Updated)), None)
        patches = [patch for one in section.of(Reflected) for patch in one.patches]
        tried = ""
        if updated is not None and updated.rewrite is not None and before.skill == after.skill:
            # A rewrite that was not taken: its proposals do not say what it would have changed.
            tried = unified(self.rendered(before.skill), self.rendered(updated.skill), "before", "candidate")
        return SkillChange(
            name=f"step {record.step}",
            short=str(record.step),
            at=float(record.step),
            step=record.step,
            epoch=record.epoch,
            action=record.action,
            why=record.why,
            train=float(sum(scored, Fraction(0)) / len(scored)) if scored else None,
            train_rows=len(scored),
            limit=record.edit_budget,
            edits=[_edit(one, record) for one in (() if updated is None else updated.outcomes)],
            studies=[_study(patch) for patch in patches],
            notes=[note for patch in patches for note in patch.notes],
            tried=tried,
            candidates=record.candidates,
            **self._verdict(section, before, after, judged),
        )

    def _slow_update(
        self, section: LogSection, before: State, after: State, judged: Judged | None
    ) -> SkillChange | None:
        """The slow update of an epoch, where one was proposed."""
        ended = next(iter(section.of(EpochEnded)), None)
        if ended is None or ended.slow_update.why is None:
            return None
        return SkillChange(
            name=f"slow update of epoch {ended.epoch}",
            short=f"E{ended.epoch}",
            at=after.step + 0.5,
            step=after.step,
            epoch=ended.epoch,
            action=ended.slow_update.action,
            why=ended.slow_update.why,
            text=ended.slow_update.slow_update_content or "",
            **self._verdict(section, before, after, judged),
        )

    def _verdict(
        self, section: LogSection, before: State, after: State, judged: Judged | None
    ) -> dict[str, Any]:
        lost = [
            (f"{row.task} ({one.stage})", row.invalid, cut(row.detail))
            for one in section.of(StageClosed)
            for row in one.rows
            if row.invalid is not None
        ]
        about = {} if judged is None else {name: getattr(judged, name) for name in _OF_VERDICT}
        diff = ""
        if before.skill != after.skill:
            diff = unified(self.rendered(before.skill), self.rendered(after.skill), "before", "after")
        return {**about, "score": after.score, "invalid": lost, "diff": diff}

    def _version(
        self, section: LogSection, place: Place | None, change: SkillChange, text: str
    ) -> Sequence[Version]:
        """The version that was measured at a place, or anywhere in the section; none where none was."""
        stages = [one for one in section.of(StageClosed) if one.stage == STAGE]
        closed = next((one for one in stages if place is None or one.place == place), None)
        if closed is None or section.after is None:
            return ()
        return [self._measured(closed.rows, section.after.metric, change, text)]

    def _measured(self, rows: Sequence[RowFact], metric: Metric, change: SkillChange, text: str) -> Version:
        by_task: dict[str, list[RowFact]] = {}
        for row in rows:
            by_task.setdefault(row.task, []).append(row)
        cells = {task: self._cell(rows, metric) for task, rows in by_task.items()}
        about = {name: getattr(change, name) for name in ("short", "name", "action", "at")}
        return Version(cells=cells, text=text, score=change.candidate, **about)

    def _cell(self, rows: Sequence[RowFact], metric: Metric) -> Cell:
        row = rows[0]
        if len(rows) == 1 and row.invalid is None and row.rollout is not None:  # a run has thousands of these
            mark, note = _mark(((row.hard or 0.0, row.soft or 0.0),), metric, self.weight)
            key, note = (row.rollout, row.attempt), row.failure or note
            return Cell(mark=mark, note=note, rollouts=(key,), tokens=row.tokens, seconds=row.seconds)
        keys = tuple((row.rollout, row.attempt) for row in rows if row.rollout is not None)
        tokens = sum(row.tokens or 0 for row in rows) or None
        seconds = sum(row.seconds or 0.0 for row in rows) or None
        lost = [row for row in rows if row.invalid is not None]
        if lost:
            note = "; ".join(f"{row.invalid}: {cut(row.detail)}" for row in lost)
            return Cell(mark="invalid", note=note, rollouts=keys, tokens=tokens, seconds=seconds)
        mark, note = _mark(tuple((row.hard or 0.0, row.soft or 0.0) for row in rows), metric, self.weight)
        failures = "; ".join(dict.fromkeys(row.failure for row in rows if row.failure))
        return Cell(mark=mark, note=failures or note, rollouts=keys, tokens=tokens, seconds=seconds)


_OF_VERDICT = (
    *("candidate", "bound", "incumbent", "policy", "decided_by"),
    *("rows_used", "rows_total", "verified"),
)


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


@lru_cache(maxsize=4096)
def _mark(draws: tuple[tuple[float, float], ...], metric: Metric, weight: float) -> tuple[Mark, str]:
    """How a task went by the mean of its draws, and what there is to say of it."""
    mean = sum(
        (value(Score(hard=hard, soft=soft), metric, weight) for hard, soft in draws), Fraction(0)
    ) / len(draws)
    mark: Mark = "pass" if mean >= 1 else "fail" if mean <= 0 else "partial"
    return mark, f"{float(mean):.3f}" if mark == "partial" else ""


def cut(text: str) -> str:
    """An error text as long as a person may want to read."""
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]} ..."


def _edit(outcome: Outcome, record: StepRecord) -> EditFact:
    """A proposal of any update mode and how it ended, also where only a part of the bundle was accepted."""
    edit, accepted = outcome.edit, record.accepted
    shown = edit.as_json()
    ops = {REWRITE: "whole skill", SUGGEST: shown.pop("type", "")}
    texts = [shown.pop(name, "") for name in ("content", "instruction", "new_skill")]
    is_left_out = accepted is not None and outcome.state == "applied" and outcome.id not in accepted.edits
    return EditFact(
        id=outcome.id,
        state="left_out" if is_left_out else outcome.state,
        reason="not in the candidate that was accepted" if is_left_out else outcome.reason,
        op=ops.get(edit.op, shown.pop("op", "")),
        target=shown.pop("target", ""),
        content=next(filter(None, texts), ""),
        evidence=shown,
    )


def _study(patch: Minibatch) -> Study:
    """What one analyst looked at and saw."""
    patterns = [
        ", ".join(f"{str(key).replace('_', ' ')}: {item}" for key, item in one.items())
        if isinstance(one, Mapping)
        else json.dumps(one, ensure_ascii=False)
        for one in patch.summary
    ]
    return Study(
        name=f"{patch.kind} {patch.index}",
        tasks=patch.tasks,
        patterns=patterns,
        edits=len(patch.edits),
        dropped=patch.dropped,
    )
