"""Decides which events are news for a person, and the sentence each becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt.events import Checkpoint, EpochEnded, Event, Notice, StageClosed, TestMeasured
from skillopt.events.records import ReopenedRecord, StepRecord
from skillopt.runs.words import outcome, score

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
    time = event.time
    if isinstance(event, Notice):
        is_warning = event.level == "warning"
        return LogLine(
            time=time,
            head=f"{'warning' if is_warning else 'note'}: {event.text}",
            tone="warn" if is_warning else "plain",
        )
    if isinstance(event, Checkpoint) and event.kind == "baseline":
        return LogLine(time=time, head=f"seed skill: {score(event.state.baseline_score)} on val")
    if isinstance(event, Checkpoint) and isinstance(event.record, StepRecord):
        record = event.record
        word = outcome(record.action)
        edits = record.edit_apply_summary.applied
        rest = f", {record.why} ({edits} {'edit' if edits == 1 else 'edits'})"
        return LogLine(
            time=time,
            head=f"step {record.step}/{steps}: ",
            word=word,
            rest=rest,
            tone=_TONES.get(word, "plain"),
        )
    if isinstance(event, Checkpoint) and isinstance(event.record, ReopenedRecord):
        return LogLine(time=time, head=f"step {event.record.from_step} and what followed it are open again")
    if isinstance(event, EpochEnded) and event.slow_update.why is not None:
        word = outcome(event.slow_update.action)
        head = f"end of epoch {event.epoch}: slow update "
        return LogLine(
            time=time,
            head=head,
            word=word,
            rest=f", {event.slow_update.why}",
            tone=_TONES.get(word, "plain"),
        )
    if isinstance(event, TestMeasured):
        return LogLine(time=time, head=f"sealed test opened (look {event.look})")
    return _lost(event) if isinstance(event, StageClosed) else None


def _lost(event: StageClosed) -> LogLine | None:
    lost = [row for row in event.rows if row.invalid]
    if not lost:
        return None
    kinds = ", ".join(sorted({row.invalid or "" for row in lost}))
    head = (
        f"{event.place} {event.stage}: {len(lost)} of {len(event.rows)} rows could not be measured ({kinds})"
    )
    return LogLine(time=event.time, head=head, tone="warn")
