"""All that a run must remember between two checkpoints; everything else is looked up in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from skillopt.gate.decision import Metric
from skillopt.gate.gate import Verdict
from skillopt.skill.document import Document

MEMORY = 12
"""How many earlier steps the analysts are told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Replaced, never changed. Scores are the gate's metric; None is a skill without a complete
    measurement.
    """

    seed: Document
    skill: Document
    best: Document
    score: float | None
    best_score: float
    baseline_score: float
    metric: Metric
    """The number the gate reads."""
    step: int = 0
    epoch: int = 0
    best_step: int = 0
    origin: str = "initial_skill"
    best_origin: str = "initial_skill"
    epoch_skill: Document | None = None
    """The skill after the last epoch end: what the next slow update looks back to."""
    memory: tuple[Mapping[str, Any], ...] = ()
    meta_skill: str = ""
    left_out: tuple[str, ...] = ()
    """Val tasks that could not be measured at baseline."""
    set_aside: Mapping[str, Any] = field(default_factory=dict)
    """What the sealed test was estimated to need when the baseline closed."""
    takes: Mapping[int, int] = field(default_factory=dict)
    reopen: Mapping[str, Any] | None = None
    """The state before a step that was lost to unusable replies, in case the next one is lost too."""
    finished: bool = False

    @classmethod
    def begin(cls, skill: Document, score: float, **about: Any) -> State:
        """The state of a run whose seed was just measured."""
        return cls(
            seed=skill, skill=skill, best=skill, score=score, best_score=score, baseline_score=score, **about
        )

    def adopt(
        self, candidate: Document, verdict: Verdict, *, step: int, origin: str, forced: bool = False
    ) -> tuple[State, str]:
        """The state after a verdict, and the public word for it."""
        score = None if verdict.candidate is None else verdict.candidate.score
        if verdict.action == "unchanged" or verdict.refused or not (forced or verdict.action == "accept"):
            return self, verdict.action
        moved = replace(self, skill=candidate, score=score, origin=origin)
        is_best = False
        if score is not None and score > self.best_score:
            is_best = True
            moved = replace(moved, best=candidate, best_score=score, best_step=step, best_origin=origin)
        if forced:
            return moved, "force_accept"
        return moved, "accept_new_best" if is_best else "accept"

    def remember(self, entry: Mapping[str, Any]) -> State:
        """The state with one more thing tried."""
        return replace(self, memory=(*self.memory, entry)[-MEMORY:])

    def as_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            data[one.name] = (
                value.text
                if isinstance(value, Document)
                else list(value)
                if isinstance(value, tuple)
                else value
            )
        data["takes"] = {str(step): take for step, take in self.takes.items()}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        values = dict(data)
        for name in ("seed", "skill", "best", "epoch_skill"):
            values[name] = None if values[name] is None else Document(values[name])
        for name in ("memory", "left_out"):
            values[name] = tuple(values[name])
        values["takes"] = {int(step): take for step, take in values["takes"].items()}
        return cls(**values)
