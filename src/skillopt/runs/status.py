"""Where a run stands: the few figures a person watches, from the fold of its events and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.events import (
    Aggregated,
    Arrived,
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Reflected,
    Selected,
    Spending,
    StageClosed,
    StageOpened,
    Updated,
)
from skillopt.events.records import EpochRecord, StepRecord
from skillopt.runs.fold import Fold
from skillopt.runs.notes import group_of
from skillopt.runs.words import duration, marks, origin, outcomes, reserved, score, spent, subject

_STAGES = {"selection": "gate", "test": "sealed test", "eval": "measuring"}
_STEP = ("rollout", "reflect", "aggregate", "select", "update", "gate")
_AFTER = {Reflected: "aggregate", Aggregated: "select", Selected: "update", Updated: "gate", Judged: ""}
LONG_CALL = 20.0
"""Seconds after which a call in flight is shown with its age."""


@dataclass(frozen=True, slots=True)
class StripStage:
    """One stage of the strip: behind us in this step, under way, or still to come."""

    name: str
    state: Literal["done", "now", "ahead"]


class RunStatus:
    """A view of a fold; takes each event once, in the process that works on a run and in one that watches.

    Its clock is that of the log, seconds since 1970.
    """

    def __init__(
        self,
        fold: Fold[Any] | None = None,
        *,
        epochs: int = 0,
        subject: str = "",
        simulated: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `fold` it keeps one of its own that holds no more than it needs."""
        self.fold: Fold[Any] = fold or Fold(lambda section: None)
        self.epochs = epochs
        self.epoch = 0
        self.stage = ""
        self.done = 0
        self.total = 0
        self.fresh = 0
        """Rows of the open stage that were measured now and not found in a store."""
        self.group = ""
        """The stages that are open and counted as one."""
        self.part = ""
        """The round or fold of a cross-fitted run that is at work."""
        self.is_at_work = True
        """Whether a process works on the run; only a watcher outside can find that none does."""
        self.calls = 0
        self.tokens = 0
        self.usd: float | None = None
        self.reserved: Callable[[], tuple[int, int]] = lambda: self._reserved
        """Calls sent and not answered, and the tokens that are set aside for them."""
        self.oldest_call: Callable[[], float] = lambda: 0.0
        """Seconds since the oldest of them was sent; 0 where nobody knows."""
        self.slowed: Callable[[], str] = lambda: ""
        """What holds calls back, in words; empty when nothing does."""
        self.elapsed: Callable[[], float] = lambda: self._clock() - self._began
        """Seconds of this session; of the whole run where somebody knows them."""
        self.worked: Callable[[], float] = lambda: self.elapsed()
        """Seconds of the run over all its sessions, where somebody knows them."""
        self.planned: float | None = None
        """Calls that there will have been at the end."""
        self._reserved = (0, 0)
        self._subject = subject
        self._simulated = simulated
        self._clock = clock
        self._began = clock()
        self._opened = ""
        self._slow: dict[int, str] = {}
        """What became of the slow update of each epoch."""

    def replay(self, history: Iterable[Event]) -> None:
        """Take in what earlier sessions decided."""
        for event in history:
            self(event)
        self._leave_stage("")

    def __call__(self, event: Event) -> None:
        self.fold.take(event)
        if isinstance(event, StageOpened):
            self._open(event)
        elif isinstance(event, Arrived):
            self._arrive(event)
        elif isinstance(event, StageClosed):
            if event.stage == "rollout" and event.place.scope != "end":
                self.stage = "reflect"
        elif isinstance(event, Spending):
            self.calls, self.tokens, self.usd = event.calls, event.tokens, event.usd
            self.planned = event.planned or self.planned
            self._reserved = (event.in_flight, event.tokens_reserved)
        elif isinstance(event, EpochEnded):
            if event.slow_update.why is not None:
                self._slow[event.epoch] = event.slow_update.action
        elif isinstance(event, Checkpoint):
            self._check(event)
        elif type(event) in _AFTER:
            self._leave_stage(_AFTER[type(event)])

    # Figures

    @property
    def steps(self) -> int:
        """How many are planned."""
        return 0 if self.fold.started is None else self.fold.started.steps

    @property
    def step(self) -> int:
        return 0 if self.fold.state is None else self.fold.state.step

    @property
    def is_finished(self) -> bool:
        return self.fold.state is not None and self.fold.state.finished

    @property
    def is_simulated(self) -> bool:
        return self._simulated if self.fold.started is None else self.fold.started.simulated

    # In words

    def what(self) -> str:
        """What is being worked on."""
        started = self.fold.started
        if started is None:
            return self._subject
        return subject(started)

    def position(self) -> str:
        """Epoch, step and stage; of a round or fold inside, which one and the stage."""
        if self.is_finished:
            return "finished"
        if self.part:
            place = ", ".join(filter(None, (self.part, self.stage)))
            return place if self.is_at_work else f"stopped in {place}"
        if not self.epoch or self.stage in ("baseline", "sealed test", "measuring"):
            if self.is_at_work:
                return self.stage or "starting"
            return f"stopped in {self.stage}" if self.stage else "stopped before the baseline"
        parts = [f"epoch {self.epoch}/{self.epochs}"]
        if not self.stage.startswith("slow update"):
            parts.append(f"step {min(self.step + 1, self.steps)}/{self.steps}")
        place = ", ".join([*parts, *([self.stage] if self.stage else [])])
        return place if self.is_at_work else f"stopped in {place}"

    def rows(self) -> str:
        """Rows of the open stage."""
        return f"{self.done:,}/{self.total:,} rows" if self.total else ""

    def under_way(self) -> str:
        """Calls in flight; with the age of the oldest, once a person may wonder."""
        waited = self.oldest_call()
        return reserved(*self.reserved(), waited if waited >= LONG_CALL else None)

    def scores(self) -> str:
        """Current, best and first score on val; empty before the baseline."""
        state = self.fold.result
        if state is None:
            return ""
        where = origin(state.best_origin, is_seed=state.best == state.seed)
        return (
            f"current {score(state.score)} · best {score(state.best_score)} ({where}) · seed"
            f" {score(state.baseline_score)}"
        )

    def marks(self) -> str:
        """One sign a step: accepted, rejected, unchanged, inconclusive."""
        return marks(record.action for record in self.fold.records)

    def verdicts(self) -> str:
        """How the steps so far ended, and the slow updates."""
        state, steps = self.fold.state, outcomes(record.action for record in self.fold.records)
        slow = [action for epoch, action in self._slow.items() if state is not None and epoch <= state.epoch]
        return f"{steps}; slow updates: {outcomes(slow)}" if slow else steps

    def strip(self) -> list[StripStage]:
        """The stages of the open step and what stands before and after them."""
        is_slow = self.stage.startswith("slow update")
        slow = ("slow update",) if self.epochs > 1 or is_slow else ()
        is_sealed = self.fold.started is None or self.fold.started.counts.get("test", 0)
        names = ("baseline", *_STEP, *slow, "sealed test" if is_sealed else "test")
        now = "slow update" if is_slow else self.stage
        at = names.index(now) if now in names else 0 if self.fold.state is None else 1
        if self.is_finished:
            at = len(names)
        return [
            StripStage(name, "done" if place < at else "now" if name == now else "ahead")
            for place, name in enumerate(names)
        ]

    def where_it_stands(self) -> str:
        """A sentence for a resumed run: its last step, the verdicts so far, the best and the seed score."""
        state = self.fold.result
        if state is None:
            return "Going on with a run that had just begun."
        return (
            f"Going on after step {state.step} of {self.steps}: {self.verdicts()}; best"
            f" {score(state.best_score)}, seed {score(state.baseline_score)}."
        )

    def left_in_words(self) -> str:
        """What is still to come, or why that is not known."""
        if self.is_finished:
            return "finished"
        if not self.is_at_work:
            return "nobody works on it"
        more = self.left()
        if more is None:
            is_known_later = self.fold.started is not None and self.planned is None
            return "time left known after the baseline" if is_known_later else "time left unknown"
        usd = None if self.usd is None else self.usd * more
        calls, tokens = round(self.calls * more), round(self.tokens * more)
        return f"about {duration(self.worked() * more)} left for {spent(calls, tokens, usd)}"

    def left(self) -> float | None:
        """What is still to come for each call so far, at the mean of time, tokens and dollars that they took;
        None before the baseline, and where more was asked than planned.
        """
        if self.is_finished:
            return 0.0
        if not self.planned or not 0 < self.calls < self.planned:
            return None
        return self.planned / self.calls - 1

    # The view

    def _open(self, event: StageOpened) -> None:
        place, group = event.place, group_of(event)
        if group == self.group:
            self.total += event.total  # two arms side by side
            return
        self.group, self._opened, self.part = group, event.stage, event.part
        self.done, self.fresh, self.total = 0, 0, event.total
        self.epoch = place.epoch if place.scope in ("step", "end") else self.epoch
        if place.scope == "baseline":
            self.stage = "baseline"
        elif place.scope == "end":
            self.stage = "slow update" if event.stage == "rollout" else "slow update, gate"
        else:
            is_of_fold = bool(event.part) and event.stage == "test"  # whose tasks other folds learn from
            self.stage = event.stage if is_of_fold else _STAGES.get(event.stage, event.stage)

    def _arrive(self, event: Arrived) -> None:
        if event.stage != self._opened or not self.group:
            return  # the seed's test in idle slots: nobody watches that
        self.done = min(self.done + 1, self.total)
        self.fresh += not event.resumed
        if self.stage == "rollout" and self.done == self.total:
            self.stage = "reflect"

    def _leave_stage(self, stage: str) -> None:
        self.stage, self.done, self.total, self.group = stage, 0, 0, ""

    def _check(self, event: Checkpoint) -> None:
        record = event.record
        self._leave_stage("")
        self.part = ""
        self.epoch = max(event.state.epoch, 1)
        if isinstance(record, StepRecord):
            self.epoch = record.epoch
        elif isinstance(record, EpochRecord):
            self.epoch = min(record.epoch + 1, self.epochs)
