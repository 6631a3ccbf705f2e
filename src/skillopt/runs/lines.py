"""Decides which events are news for a person, and the sentence each becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt.events import (
    Checkpoint,
    EpochEnded,
    Event,
    HandedOver,
    Notice,
    Pruned,
    StageClosed,
    TestMeasured,
)
from skillopt.events.records import ReopenedRecord, StepRecord
from skillopt.runs.words import count, outcome, score

Tone = Literal["plain", "good", "warn", "bad"]
_TONES: dict[str, Tone] = {
    "accepted": "good",
    "rejected": "warn",
    "taken without a gate": "warn",
    "inconclusive": "bad",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a run's log for people: `head`, then a `word` that carries the tone, then `rest`."""

    time: str
    head: str
    word: str = ""
    rest: str = ""
    tone: Tone = "plain"

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.head}{self.word}{self.rest}"


def line_of(event: Event, steps: int) -> LogLine | None:
    """The line for a decision; None for what is no news. `steps` is how many are planned."""
    if isinstance(event, Notice):
        is_warning = event.level == "warning"
        head = f"{'warning' if is_warning else 'note'}: {event.text}"
        return LogLine(time=event.time, head=head, tone="warn" if is_warning else "plain")
    if isinstance(event, StageClosed):
        return _lost(event)
    head, action, rest = "", "", ""
    if isinstance(event, Checkpoint) and event.kind == "baseline":
        head = f"seed skill: {score(event.state.baseline_score)} on val"
        if event.state.skill != event.state.seed:
            head += f"; the skill to start from: {score(event.state.score)}"
    elif isinstance(event, Checkpoint) and isinstance(event.record, StepRecord):
        head, action = f"step {event.record.step}/{steps}: ", event.record.action
        rest = f", {event.record.why} ({count(event.record.edit_apply_summary.applied, 'edit')})"
    elif isinstance(event, Checkpoint) and isinstance(event.record, ReopenedRecord):
        head = f"step {event.record.from_step} and what followed it are open again"
    elif isinstance(event, EpochEnded) and event.slow_update.why is not None:
        head, action = f"end of epoch {event.epoch}: slow update ", event.slow_update.action
        rest = f", {event.slow_update.why}"
    elif isinstance(event, HandedOver):
        edits = count(len(event.edits), "edit")
        head = f"step {event.place.step}/{steps} stays open; handed over: {event.why} ({edits})"
    elif isinstance(event, Pruned):
        out, learned = sum(line.removed for line in event.lines), count(len(event.lines), "learned line")
        head = f"pruned: {out} of {learned} left out, {score(event.score)} on val"
    elif isinstance(event, TestMeasured):
        opened = f"{event.folds} folds pooled" if event.folds else "sealed test opened"
        head = f"{opened} (look {event.look})"
    word = outcome(action)
    tone = _TONES.get(word, "plain")
    return LogLine(time=event.time, head=head, word=word, rest=rest, tone=tone) if head else None


def _lost(event: StageClosed) -> LogLine | None:
    lost = [row for row in event.rows if row.invalid]
    if not lost:
        return None
    kinds = ", ".join(sorted({row.invalid or "" for row in lost}))
    what = f"{len(lost)} of {len(event.rows)} rows could not be measured ({kinds})"
    return LogLine(time=event.time, head=f"{event.place} {event.stage}: {what}", tone="warn")
