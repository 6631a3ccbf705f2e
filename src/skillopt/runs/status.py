"""Decides where a run stands: the events so far as the few figures a person watches, in this process or from
outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Literal

from skillopt.events import (
    Aggregated,
    Arrived,
    Checkpoint,
    Event,
    Judged,
    Reflected,
    RunStarted,
    Selected,
    Spending,
    StageClosed,
    StageOpened,
    Updated,
)
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.runs.words import duration, marks, outcomes, score

_STAGES = {"selection": "gate", "test": "sealed test", "eval": "measuring"}
_STEP = ("rollout", "reflect", "aggregate", "select", "update", "gate")
RECENT = 9
"""From how many closed steps a watcher learns how long one takes."""
_AFTER = {Reflected: "aggregate", Aggregated: "select", Selected: "update", Updated: "gate", Judged: ""}


@dataclass(frozen=True, slots=True)
class StripStage:
    """One stage of the strip: behind us in this step, under way, or still to come."""

    name: str
    state: Literal["done", "now", "ahead"]


class Status:
    """A fold of events. Times count from this session only, so that the estimate rests on what was really
    seen.

    A watcher in another process sees no step from its beginning: with `from_records` it takes the durations
    that the step records tell, and its clock is that of the log, seconds since 1970.
    """

    def __init__(
        self,
        *,
        epochs: int = 0,
        subject: str = "",
        simulated: bool = False,
        clock: Callable[[], float] = time.monotonic,
        from_records: bool = False,
    ) -> None:
        self.epochs = epochs
        self.simulated = simulated
        self.steps = 0
        self.step = 0
        self.epoch = 0
        self.stage = ""
        self.done = 0
        self.total = 0
        self.score: float | None = None
        self.best: float | None = None
        self.best_step = 0
        self.baseline: float | None = None
        self.is_finished = False
        self.is_at_work = True
        """Whether a process works on the run; only a watcher outside can find that none does."""
        self.calls = 0
        self.tokens = 0
        self.usd: float | None = None
        self.gauge: Callable[[], int] | None = None
        """Calls in flight right now, where they can be asked for."""
        self.brake: Callable[[], str] | None = None
        """How far providers made us slow down and why, in words, where it can be asked for."""
        self.timer: Callable[[], float] | None = None
        """Seconds the run has taken so far, where somebody else than this session knows."""
        self._from_records = from_records
        self._took: list[float] = []
        self._closed_at: float | None = None
        self._in_flight = 0
        self._subject = subject
        self._actions: dict[int, str] = {}
        self._group = ""
        self._opened = ""
        self._clock = clock
        self._began = clock()
        self._replaying = False
        self._is_resumed = False
        self._first_step: float | None = None
        self._last_step: float | None = None
        self._steps_here = 0
        self._rows_per_second: float | None = None
        self._fresh = 0
        self._stage_began = self._began
        self._test_rows = 0

    def replay(self, history: Iterable[Event]) -> None:
        """Take in what earlier sessions decided."""
        self._replaying = True
        for event in history:
            self(event)
            self._is_resumed = True
        self._replaying = False
        self.stage = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.steps, self.simulated = event.steps, event.simulated
            self._test_rows = event.counts.get("test", 0)
            self._subject = f"{event.benchmark} · target {event.target} · optimizer {event.optimizer}"
        elif isinstance(event, StageOpened):
            self._open(event)
        elif isinstance(event, Arrived):
            self._arrive(event)
        elif isinstance(event, StageClosed):
            self._close(event)
        elif isinstance(event, Spending):
            self.calls, self.tokens, self.usd, self._in_flight = (
                event.calls,
                event.tokens,
                event.usd,
                event.in_flight,
            )
        elif isinstance(event, Checkpoint):
            self._check(event)
        elif type(event) in _AFTER:
            self.stage, self.done, self.total, self._group = _AFTER[type(event)], 0, 0, ""

    # In words

    def what(self) -> str:
        """What is being worked on."""
        return self._subject

    def position(self) -> str:
        """Epoch, step and stage."""
        if self.is_finished:
            return "finished"
        if not self.epoch or self.stage in ("baseline", "sealed test", "measuring"):
            begun = self.stage or "starting"
            return (
                begun
                if self.is_at_work
                else f"stopped in {self.stage}"
                if self.stage
                else "stopped before the baseline"
            )
        step = (
            []
            if self.stage.startswith("slow update")
            else [f"step {min(self.step + 1, self.steps)}/{self.steps}"]
        )
        place = ", ".join([f"epoch {self.epoch}/{self.epochs}", *step, *([self.stage] if self.stage else [])])
        return place if self.is_at_work else f"stopped in {place}"

    def in_flight(self) -> int:
        """Calls sent and not answered."""
        return self._in_flight if self.gauge is None else self.gauge()

    def slowed(self) -> str:
        """What holds calls back; empty when nothing does."""
        return "" if self.brake is None else self.brake()

    def rows(self) -> str:
        """Rows of the open stage."""
        return f"{self.done:,}/{self.total:,} rows" if self.total else ""

    def marks(self) -> str:
        """One sign a step: accepted, rejected, unchanged, inconclusive."""
        return marks(list(self._actions.values()))

    def strip(self) -> list[StripStage]:
        """The stages of the open step and what stands before and after them."""
        names = (
            "baseline",
            *_STEP,
            *(("slow update",) if self.epochs > 1 or self.stage.startswith("slow update") else ()),
            "sealed test",
        )
        now = "slow update" if self.stage.startswith("slow update") else self.stage
        if self.is_finished:
            return [StripStage(name, "done") for name in names]
        if now not in names:  # between two stages
            return [
                StripStage(name, "done" if name == "baseline" and self.baseline is not None else "ahead")
                for name in names
            ]
        at = names.index(now)
        return [
            StripStage(name, "done" if place < at else "now" if place == at else "ahead")
            for place, name in enumerate(names)
        ]

    def verdicts(self) -> str:
        """How the steps so far ended."""
        return outcomes(list(self._actions.values()))

    def where_it_stands(self) -> str:
        """What is taken up again."""
        if self.baseline is None:
            return "Going on with a run that had just begun."
        return (
            f"Going on after step {self.step} of {self.steps}: {self.verdicts()}; best {score(self.best)},"
            f" seed {score(self.baseline)}."
        )

    def elapsed(self) -> float:
        """Seconds of this session; of the whole run where a timer tells them."""
        return self._clock() - self._began if self.timer is None else self.timer()

    def left_in_words(self) -> str:
        """The estimate, or why there is none yet."""
        if self.is_finished:
            return "finished"
        if not self.is_at_work:
            return "nobody works on it"
        left = self.seconds_left()
        if left is not None:
            return f"about {duration(left)} left"
        return "time left known after the first step" if self.steps else "time left unknown"

    def seconds_left(self) -> float | None:
        """Mean step of this session for the steps to come, less what the open one has had, plus the test at
        the pace of whole stages.

        A watcher takes the median of the last steps as their records tell them, and the pace of their gates.
        """
        now = self._clock()
        if self.is_finished:
            return 0.0
        if self.stage in ("sealed test", "measuring"):
            pace = self._pace(now)
            return None if pace is None else (self.total - self.done) / pace
        if self._from_records and self._took and self._closed_at is not None:
            mean, since = median(self._took), self._closed_at
        elif self._steps_here and self._first_step is not None and self._last_step is not None:
            mean, since = (self._last_step - self._first_step) / self._steps_here, self._last_step
        else:
            return None
        left = self.steps - self.step
        had = (
            min(now - since, mean) if self._from_records else now - since
        )  # a watcher may look at a run that nobody works on
        test = 2 * self._test_rows / self._rows_per_second if self._rows_per_second else 0.0
        return max(0.0, mean * left - had) + test

    # The fold

    def _open(self, event: StageOpened) -> None:
        place = event.place
        group = event.stage if event.stage in ("test", "eval") else str(replace(place, arm=""))
        if (group, event.stage) == (self._group, self._opened):
            self.total += event.total  # two arms side by side
            return
        self._group, self._opened = group, event.stage
        self.done, self.total, self._fresh, self._stage_began = 0, event.total, 0, self._clock()
        self.epoch = place.epoch if place.scope in ("step", "end") else self.epoch
        if place.scope == "baseline":
            self.stage = "baseline"
        elif place.scope == "end":
            self.stage = "slow update" if event.stage == "rollout" else "slow update, gate"
        else:
            self.stage = _STAGES.get(event.stage, event.stage)
        if event.stage == "rollout" and self._first_step is None:
            self._first_step = self._clock()

    def _arrive(self, event: Arrived) -> None:
        if event.stage != self._opened or not self._group:
            return  # the seed's test in idle slots: nobody watches that
        self.done = min(self.done + 1, self.total)
        self._fresh += not event.resumed
        if event.stage == "rollout" and self.done == self.total and self.stage == "rollout":
            self.stage = "reflect"

    def _close(self, event: StageClosed) -> None:
        now = self._clock()
        if not self._replaying and self._fresh >= 10 and event.stage in ("selection", "rollout"):
            self._rows_per_second = self._pace(now) or self._rows_per_second
        if event.stage == "rollout" and event.place.scope != "end":
            self.stage = "reflect"

    def _pace(self, now: float) -> float | None:
        """Fresh rows per second of the open stage; None before there is anything to go by."""
        return (
            self._fresh / (now - self._stage_began) if self._fresh >= 3 and now > self._stage_began else None
        )

    def _check(self, event: Checkpoint) -> None:
        state = event.state
        self.step, self.score, self.best = state.step, state.score, state.best_score
        self.best_step, self.baseline = state.best_step, state.baseline_score
        self.epoch = max(state.epoch, 1)
        self.stage, self.done, self.total, self._group = "", 0, 0, ""
        self.is_finished = state.finished
        record = event.record
        if isinstance(record, StepRecord):
            self._learn(event, record)
            self._actions[record.step] = record.action
            self.epoch = record.epoch
            if (
                self._is_resumed
            ):  # the first step after a stop was half paid already: no measure for the others
                self._is_resumed, self._first_step = False, self._clock()
            elif not self._replaying:
                self._steps_here += 1
                self._last_step = self._clock()
        elif isinstance(record, ReopenedRecord):
            first = record.from_step
            self._actions = {step: action for step, action in self._actions.items() if step < first}
        elif isinstance(record, EpochRecord):
            self.epoch = min(record.epoch + 1, self.epochs)

    def _learn(self, event: Checkpoint, record: StepRecord) -> None:
        """How long a step took and how quick its gate was, as its record tells."""
        if not self._from_records:
            return
        self._closed_at = datetime.fromisoformat(event.time).timestamp()
        self._took = [*self._took, record.wall_time_s][-RECENT:]
        rows, seconds = record.selection_rows_all, record.timing.get("evaluate_s", 0.0)
        if rows >= 10 and seconds > 0:
            self._rows_per_second = rows / seconds
