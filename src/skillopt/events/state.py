"""All that a run must remember between two checkpoints; everything else is looked up in the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from skillopt.events.records import Fact
from skillopt.skill.edits import Edit

MEMORY = 12
"""How many earlier steps the analysts are told of."""
Metric = Literal["hard", "soft", "mixed"]


class MemoryEntry(Fact):
    """What later analysts are told of one step: what was tried, and how the gate ruled."""

    step: int
    action: str
    why: str
    edits: tuple[Edit, ...] = ()
    patterns: tuple[str, ...] = ()


class TestShare(Fact):
    """What the sealed test, or one more gate, was estimated to need when the baseline closed."""

    __test__ = False  # not a test class

    calls: int
    tokens: int
    usd: str | None
    """An exact fraction; None is unknown."""
    seconds: float


class State(Fact):
    """Where a run stands. Replaced, never changed.

    Skills are named by the digest of their whole text, which the run's database holds. Scores are the gate's
    metric; None is a skill without a complete measurement.
    """

    seed: str
    skill: str
    best: str
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
    epoch_skill: str | None = None
    """The skill after the last epoch end: what the next slow update looks back to."""
    meta_skill: str = ""
    left_out: tuple[str, ...] = ()
    """Val tasks that could not be measured at baseline."""
    set_aside: TestShare | None = None
    gate_share: TestShare | None = None
    """What is set aside for judging what a step found when the budget ends it; None where none is."""
    settled: tuple[str, ...] = ()
    """Train tasks that are solved, or fixed by an edit that was accepted; noted by strategies that ask."""
    remaining: tuple[str, ...] | None = None
    """The train tasks of the present epoch, fixed when it began; None is all."""
    takes: Mapping[int, int] = Field(default_factory=dict)
    """How often a step was opened again."""
    reopen: str | None = None
    """The checkpoint before a step that was lost to unusable replies, in case the next one is lost too."""
    finished: bool = False
    memory: tuple[MemoryEntry, ...] = Field(default=(), exclude=True)
    """Not written with the state: each checkpoint holds the entries that are new with it (`remembered`)."""
    checkpoint: str | None = Field(default=None, exclude=True)
    """The id of the checkpoint that this state was written with."""

    def replace(self, **changes: Any) -> State:
        """The state with some fields set."""
        return self.model_copy(update=changes)

    def remember(self, *entries: MemoryEntry) -> State:
        """The state with further entries; the oldest beyond `MEMORY` are forgotten."""
        return self.replace(memory=(*self.memory, *entries)[-MEMORY:])
