"""Reads from a finished run which calls its algorithm needed and what each had to wait for, and makes the
call graph of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _graph import Graph
from skillopt.evaluation.runner import PlannedRow, rows_of
from skillopt.events import Checkpoint, EpochEnded, Event, Judged, Row, StageClosed, TestMeasured, Updated
from skillopt.events.place import Place
from skillopt.gate.decision import reading_order
from skillopt.run import OpenRun, trainer_of
from skillopt.skill.document import Document

TARGET, OPTIMIZER = "target", "optimizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One pass through the gate: the rollout keys in reading order, and how many of them the verdict read."""

    place: str
    candidate: str
    rejected: bool
    keys: tuple[str, ...]
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. `hard` holds the score of each row in planned order, None for an invalid one."""

    place: str
    seed: int
    skill_bytes: int
    keys: tuple[str, ...]
    hard: tuple[float | None, ...]
    gate: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of an epoch: both arms, then slow update and meta skill, then the gate."""

    place: str
    keys: tuple[str, ...]
    gate: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All of a run in the order in which its decisions fell."""

    baseline: tuple[str, ...]
    seed_test: tuple[str, ...]
    parts: tuple[Step | EpochEnd, ...]
    finish: Window | None
    test: tuple[str, ...]
    minibatch: int
    workers: int
    analysts: int

    @property
    def gates(self) -> list[Window]:
        windows = [part.gate for part in self.parts] + [self.finish]
        return [window for window in windows if window is not None]


class Reader:
    """Reads the script from a run that is still open and the events it decided."""

    def __init__(self, opened: OpenRun, events: Sequence[Event]) -> None:
        self._opened = opened
        self._skills = opened.run.skills
        self._trainer = trainer_of(opened)
        self._trainer.load()
        self._facts = {event.id: event for event in events if event.id is not None}
        self._checkpoints = [event for event in events if isinstance(event, Checkpoint)]

    def script(self) -> Script:
        """The whole run."""
        job, config = self._opened.job, self._opened.job.config
        batches = {
            str(batch.place): batch
            for epoch in range(1, config.train.num_epochs + 1)
            for batch in self._batches(epoch)
        }
        skill = job.skill
        parts: list[Step | EpochEnd] = []
        finish: Window | None = None
        for point in self._checkpoints:
            place = str(Place.parse(str(point.id)).root)
            if point.kind == "step":
                rows = self._rows(f"{place}/rollout")
                updated = self._facts.get(f"{place}/update")
                candidate = self._skills.get(updated.skill) if isinstance(updated, Updated) else skill
                parts.append(
                    Step(
                        place=place,
                        seed=batches[place].seed,
                        skill_bytes=len(skill.text.encode()),
                        keys=tuple(row.rollout or "" for row in rows),
                        hard=tuple(row.hard for row in rows),
                        gate=self._window(place, candidate, skill),
                    )
                )
            elif point.kind == "epoch":
                ended = self._facts[f"{place}/ended"]
                told = ended.slow_update.slow_update_content if isinstance(ended, EpochEnded) else None
                arms = [*self._rows(f"{place}/older/rollout"), *self._rows(f"{place}/newer/rollout")]
                gate = self._window(place, skill.with_region("slow_update", told), skill) if told else None
                parts.append(EpochEnd(place=place, keys=tuple(row.rollout or "" for row in arms), gate=gate))
            elif point.kind == "finish":
                finish = self._window("finish", skill, self._skills.get(point.state.best))
            skill = self._skills.get(point.state.skill)
        test = [fact for fact in self._facts.values() if isinstance(fact, TestMeasured)]
        measured = [row.rollout or "" for fact in test for rows in fact.rows.values() for row in rows]
        return Script(
            baseline=tuple(row.rollout or "" for row in self._rows("baseline/selection")),
            seed_test=self._keys(job.skill, rows_of(job.splits.test)),
            parts=tuple(parts),
            finish=finish,
            test=tuple(measured),
            minibatch=config.gradient.minibatch_size,
            workers=config.env.workers,
            analysts=config.gradient.analyst_workers,
        )

    def _batches(self, epoch: int) -> Iterable[Any]:
        return self._trainer.plan.batches_left(epoch, None)

    def _rows(self, name: str) -> list[Row]:
        fact = self._facts.get(name)
        return list(fact.rows) if isinstance(fact, StageClosed) else []

    def _keys(self, skill: Document, rows: Iterable[PlannedRow]) -> tuple[str, ...]:
        return tuple(self._opened.evaluator.key(skill.rendered, row) for row in rows)

    def _window(self, place: str, candidate: Document, incumbent: Document) -> Window | None:
        verdict = self._facts.get(f"{place}/verdict")
        if not isinstance(verdict, Judged) or verdict.action == "unchanged":
            return None
        gate = self._trainer.gate
        order = reading_order(self._trainer.measured(incumbent if gate.is_on else self._best(place)).values)
        keys = self._keys(candidate, [gate.rows[row] for row in order])
        return Window(
            place=place,
            candidate=candidate.digest,
            rejected=verdict.action == "reject",
            keys=keys,
            used=verdict.rows_used,
        )

    def _best(self, place: str) -> Document:
        """Without the gate candidates are read against the best skill before the decision at `place`."""
        best = self._opened.job.skill
        for point in self._checkpoints:
            if str(Place.parse(str(point.id)).root) == place:
                break
            best = self._skills.get(point.state.best)
        return best


class CallGraph:
    """The graph of the calls that were really sent. `calls` gives the seconds of each by its place."""

    def __init__(self, script: Script, calls: Mapping[str, float]) -> None:
        self.graph = Graph()
        self._script = script
        self._calls = calls
        self._rollouts: dict[str, list[str]] = {}
        for place in sorted(calls):
            if place.startswith("rollout/"):
                self._rollouts.setdefault(place.split("/")[1].partition(".")[0], []).append(place)
        self._asked: dict[str, int] = {}
        self.unplaced = set(calls)
        self._build()

    def _build(self) -> None:
        script, graph = self._script, self.graph
        start = graph.milestone("start", ())
        decided = graph.milestone("baseline", [start, *self._rows(script.baseline, [start])])
        for part in script.parts:
            decided = self._step(part, decided) if isinstance(part, Step) else self._epoch(part, decided)
        if script.finish is not None:
            decided = graph.milestone("finish/verdict", [decided, self._gate(script.finish, decided)])
        decided = graph.milestone("decided", [decided])
        # Added last, so that a key that an earlier stage asked for keeps its place there; the seed's rows
        # wait for the baseline alone.
        early = self._rows(script.seed_test, [graph.milestones["baseline"]])
        graph.milestone("test", [decided, *early, *self._rows(script.test, [decided])])

    def _step(self, step: Step, decided: int) -> int:
        graph, name = self.graph, step.place
        rows = [self._rows([key], [decided]) for key in step.keys]
        reflected: dict[str, list[int]] = {}
        for at, kind in enumerate(("failure", "success")):
            needs = list(_prefixes(step, kind, step.seed + at, self._script.minibatch))
            reflected[kind] = [
                self._asks(
                    f"{name}/analyst_{kind}/{index}",
                    [decided, *(node for row in prefix for node in rows[row])],
                )
                for index, prefix in enumerate(needs)
            ]
        everything = [node for row in rows for node in row] + reflected["failure"] + reflected["success"]
        graph.milestone(f"{name}/reflect", [decided, *everything])
        merged = [self._merges(name, kind, reflected[kind] or [decided]) for kind in ("failure", "success")]
        aggregated = graph.milestone(
            f"{name}/aggregate", [*everything, *self._merges(name, "final", [*merged[0], *merged[1]])]
        )
        ranked = self._asks(f"{name}/ranking/0", [aggregated])
        selected = graph.milestone(f"{name}/select", [self._asks(f"{name}/repair/0", [ranked])])
        return graph.milestone(f"{name}/verdict", [self._gate(step.gate, selected)])

    def _epoch(self, end: EpochEnd, decided: int) -> int:
        arms = [decided, *self._rows(end.keys, [decided])]
        slow = self._asks(f"{end.place}/slow_update/0", arms)
        meta = self._asks(f"{end.place}/meta_skill/0", arms)
        return self.graph.milestone(f"{end.place}/ended", [self._gate(end.gate, slow), meta])

    def _gate(self, window: Window | None, decided: int) -> int:
        """The verdict; row i is sent when all rows up to i - workers have been read."""
        if window is None:
            return decided
        read = [decided]
        nodes: list[list[int]] = []
        for index, key in enumerate(window.keys):
            while len(read) - 1 < min(index - self._script.workers + 1, len(nodes)):
                read.append(self.graph.milestone(f"{window.place}/read", [read[-1], *nodes[len(read) - 1]]))
            nodes.append(self._rows([key], [read[max(0, index - self._script.workers + 1)]]))
        return self.graph.milestone(
            f"{window.place}/judged", [decided, *(node for row in nodes[: window.used] for node in row)]
        )

    def _rows(self, keys: Iterable[str], after: Sequence[int]) -> list[int]:
        """The calls of rollouts, in the stage that asked for them first; what was found in the store has
        none.
        """
        found = []
        for key in keys:
            for place in self._rollouts.get(key, ()):
                found.append(self._one(place, TARGET, after))
        return found

    def _asks(self, name: str, after: Sequence[int]) -> int:
        """A question to the optimizer with its re-ask, if it was asked at all."""
        last = self.graph.milestone(name, after)
        for attempt in ("a0", "a1"):
            if f"{name}/{attempt}" in self._calls:
                last = self._one(f"{name}/{attempt}", OPTIMIZER, [last])
        return last

    def _merges(self, step: str, kind: str, after: Sequence[int]) -> list[int]:
        level, depth = list(after), 0
        prefix = f"{step}/merge/{kind}"
        while names := sorted(
            {one.rpartition("/")[0] for one in self._calls if one.startswith(f"{prefix}-{depth}-")}
        ):
            level = [self._asks(name, level) for name in names]
            depth += 1
        return level

    def _one(self, place: str, pool: str, after: Sequence[int]) -> int:
        if place not in self._asked:
            self._asked[place] = self.graph.call(self._calls[place], pool, after)
            self.unplaced.discard(place)
        return self._asked[place]


def _prefixes(step: Step, kind: str, seed: int, size: int) -> Iterable[list[int]]:
    """For each minibatch the rows that must be in before it is known: the beginning of the shuffled order
    that fills it.
    """
    order = list(range(len(step.keys)))
    random.Random(seed).shuffle(order)
    filled = 0
    for at, index in enumerate(order, start=1):
        hard = step.hard[index]
        filled += hard is not None and (hard > 1e-9) == (kind == "success")
        if filled == size:
            yield order[:at]
            filled = 0
    if filled:
        yield order
