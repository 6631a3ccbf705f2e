"""Decides which stage of a run is open and how many of its rows are in, though a log only tells of stages
that are closed.

The log says what was decided last, the ledger which rollouts were begun since, and the stored scores which of
them are in. A row that was found in a store instead of being paid is not seen here, so a stage may close
before all of its rows were counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skillopt.account import Entry
from skillopt.events import (
    Arrived,
    Checkpoint,
    Event,
    RowFact,
    StageClosed,
    StageOpened,
    TestMeasured,
    Updated,
)
from skillopt.gate.gate import STAGE
from skillopt.ledger import TEST_STAGE
from skillopt.place import BASELINE, Place
from skillopt.runs.fold import Fold
from skillopt.runs.tail import News

ROLLOUT = "rollout"
FIRST_ROWS = 24
"""Rows the baseline has at least, where repeats are not set."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """An open stage. `turn` tells two takes of the same stage apart."""

    name: str
    place: Place
    total: int
    turn: int
    after: int = 0
    """Rollouts begun before this attempt of the ledger belong to an earlier stage."""


class Floor:
    """Told of the log and of the ledger; answers with the live events that a process inside the run would
    have seen.
    """

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, int]] = {}
        """Rollouts that no closed stage has used: stage, and the attempt with which they began."""
        self._scored: dict[str, float] = {}
        self._newest = {"optimizer": 0, STAGE: 0}
        self._turn = 0
        self._rows = 0
        self._shown: _Stage | None = None
        self._told: set[str] = set()

    def decided(self, event: Event) -> None:
        """A fact of the log: rows that a stage used are no longer open."""
        if isinstance(event, StageClosed):
            self._forget(event.rows)
        elif isinstance(event, TestMeasured):
            for rows in event.rows.values():
                self._forget(rows)
        self._turn += isinstance(event, (Checkpoint, Updated))

    def take(self, news: News) -> None:
        """What the database gained."""
        for one in news.booked:
            self._begin(one)
        self._scored.update((key, hard) for key, hard in news.scored if key in self._begun)

    def live(self, fold: Fold, config: Mapping[str, Any]) -> list[Event]:
        """A stage that opened, and the rows of it that came in since the last question."""
        stage = self._open_stage(fold, config)
        if stage is None:
            return []
        keys = [key for key, (name, at) in self._begun.items() if name == stage.name and at > stage.after]
        if not keys:
            return []
        events: list[Event] = []
        shown = self._shown
        if shown is None or (shown.name, shown.place, shown.turn) != (stage.name, stage.place, stage.turn):
            self._shown, self._told = stage, set()
            events.append(StageOpened(place=stage.place, stage=stage.name, total=max(stage.total, len(keys))))
        for key in keys:
            if key in self._scored and key not in self._told:
                self._told.add(key)
                hard = (
                    None if stage.name == TEST_STAGE else self._scored[key]
                )  # of the sealed test nobody learns more than that it is in
                events.append(Arrived(stage=stage.name, hard=hard, invalid=None, resumed=False))
        return events

    def _begin(self, one: Entry) -> None:
        if one.role == "optimizer":
            self._newest["optimizer"] = max(self._newest["optimizer"], one.id)
        place = Place.parse(one.place)
        if one.role == "target" and place.scope == "rollout":
            if one.stage == STAGE:
                self._newest[STAGE] = max(self._newest[STAGE], one.id)
            self._begun.setdefault(place.name, (one.stage, one.id))

    def _forget(self, rows: Iterable[RowFact]) -> None:
        for row in rows:
            if row.rollout is not None:
                self._begun.pop(row.rollout, None)
                self._scored.pop(row.rollout, None)

    def _open_stage(self, fold: Fold, config: Mapping[str, Any]) -> _Stage | None:
        started, state = fold.started, fold.state
        if started is None or (state is not None and state.finished):
            return None
        counts, train = started.counts, config.get("train", {})
        if state is None:
            repeats = config.get("evaluation", {}).get("repeats") or math.ceil(
                FIRST_ROWS / max(1, counts.get("val", 1))
            )
            return self._gate(BASELINE, counts.get("val", 0) * repeats)
        epochs = max(1, int(train.get("num_epochs", 1)))
        per_epoch = max(1, started.steps // epochs)
        step, ended = state.step, state.epoch
        rows = self._gate_rows(fold)
        updated = [one for one in fold.open if isinstance(one, Updated)]
        if updated:
            return self._gate(updated[-1].place, rows)
        if step > 0 and step % per_epoch == 0 and ended < step // per_epoch:  # the end of an epoch
            place = Place.end_of(ended + 1)
            samples = 2 * int(config.get("optimizer", {}).get("slow_update_samples", 20))
            closed = [one for one in fold.open if isinstance(one, StageClosed)]
            return (
                self._gate(place, rows)
                if len(closed) >= 2
                else self._rollouts(place.of_arm("older"), samples)
            )
        if fold.open:
            return None  # the optimizer is at work: nothing to count
        waited, patience = step - state.best_step, int(train.get("patience", 0))
        is_gated = config.get("evaluation", {}).get("use_gate") is not False
        # Training is over with its plan, or before it where no further step could help.
        if (
            (step >= started.steps and ended >= epochs)
            or (is_gated and state.score == 1.0)
            or (patience and waited >= patience)
        ):
            return _Stage(TEST_STAGE, Place.named("test", "all"), 2 * counts.get("test", 0), 0)
        return self._rollouts(
            Place.of_step(step // per_epoch + 1, step + 1), _batch(counts, train, step % per_epoch)
        )

    def _gate_rows(self, fold: Fold) -> int:
        """Rows of a gate that is read to its end: those of the seed, without the tasks that were left out."""
        if not self._rows and fold.seed is not None and fold.state is not None:
            left_out = set(fold.state.left_out)
            self._rows = sum(
                max(1, len(cell.rollouts)) for task, cell in fold.seed.cells.items() if task not in left_out
            )
        return self._rows

    def _gate(self, place: Place, rows: int) -> _Stage:
        return _Stage(STAGE, place, rows, self._turn, self._newest["optimizer"])

    def _rollouts(self, place: Place, rows: int) -> _Stage:
        return _Stage(ROLLOUT, place, rows, self._turn, self._newest[STAGE])


def _batch(counts: Mapping[str, int], train: Mapping[str, Any], index: int) -> int:
    size = int(train.get("batch_size", 1)) * int(train.get("accumulation", 1))
    return max(0, min(size, counts.get("train", 0) - index * size))
