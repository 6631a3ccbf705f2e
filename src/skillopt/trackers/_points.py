"""Decides which figures a fact of a run holds, under one set of names for every tracker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.events import Checkpoint, Event, Judged, Row, TestMeasured, Updated
from skillopt.events.records import StepRecord
from skillopt.trackers.port import Opening

_STEP_FIGURES = {
    "rollout_hard": "train/hard",
    "rollout_soft": "train/soft",
    "candidate_gate_score": "val/candidate",
    "current_score": "val/current",
    "best_score": "val/best",
    "edit_budget": "edits/limit",
    "skill_len": "skill/characters",
    "wall_time_s": "time/step_seconds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One figure at one step."""

    step: int
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A document worth keeping with the figures."""

    step: int
    name: str
    text: str


class Figures:
    """Turns facts into points and texts; remembers the step, which not every fact names."""

    def __init__(self, opening: Opening) -> None:
        self._step = 0
        self._opening = opening

    def of(self, event: Event) -> Iterator[Point]:
        """The figures of a fact; most facts have none."""
        if isinstance(event, Checkpoint):
            self._step = event.state.step
            yield from self._named(_of_checkpoint(event))
        elif isinstance(event, TestMeasured):
            for skill, rows in event.rows.items():
                yield from self._named(_of_rows(f"test/{skill}", rows))

    def texts(self, event: Event) -> Iterator[Text]:
        """Skill texts and verdicts, where they may leave the run folder. Ask for the figures first."""
        step, skill = self._step, self._opening.skill
        if not self._opening.texts:
            return
        if isinstance(event, Updated):
            yield Text(step=step + 1, name="skill/candidate", text=skill(event.skill))
        elif isinstance(event, Judged):
            yield Text(step=step + 1, name="verdict", text=f"{event.place}: {event.action} - {event.why}")
        elif isinstance(event, Checkpoint) and event.kind == "finish":
            yield Text(step=step, name="skill/best", text=skill(event.state.best))

    def _named(self, found: Iterator[tuple[str, Any]]) -> Iterator[Point]:
        for name, value in found:
            if value is not None:  # absent is absent, never zero
                yield Point(step=self._step, name=name, value=float(value))


def _of_checkpoint(event: Checkpoint) -> Iterator[tuple[str, Any]]:
    if event.kind == "baseline":
        yield "val/current", event.state.score
        yield "val/best", event.state.best_score
    elif isinstance(event.record, StepRecord):
        record = event.record
        for key, name in _STEP_FIGURES.items():
            yield name, getattr(record, key)
        for state, count in record.edit_states.items():
            yield f"edits/{state}", count
        yield "gate/accepted", float(record.action.startswith("accept"))
        for stage, used in record.tokens.items():
            yield f"tokens/{stage}", used.prompt_tokens + used.completion_tokens
    elif event.kind == "epoch":  # a name of its own: its step has a point already
        yield "val/after_epoch", event.state.score


def _of_rows(name: str, rows: Sequence[Row]) -> Iterator[tuple[str, Any]]:
    for metric in ("hard", "soft"):
        found = [value for row in rows if (value := getattr(row, metric)) is not None]
        yield f"{name}/{metric}", sum(found) / len(found) if found else None
