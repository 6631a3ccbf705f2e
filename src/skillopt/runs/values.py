"""What a report knows of a run: the values that HTML and Markdown are written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from skillopt.events.records import CandidateRecord
from skillopt.messages import Role
from skillopt.money import Account, Total
from skillopt.significance import Significance
from skillopt.train.claim import TestReport

Mark = Literal["pass", "partial", "fail", "invalid"]
"""How a task went with a version; a task that is not in a version was not evaluated."""


def fields_of(value: Any) -> dict[str, Any]:
    """What a value holds, to make one of a kind that holds more."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFact:
    """One proposed edit, how it ended and why, and what spoke for it."""

    id: str
    state: str
    reason: str
    op: str
    target: str
    content: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What one analyst looked at and saw: the evidence behind the edits of that name."""

    name: str
    tasks: Sequence[str]
    patterns: Sequence[str]
    edits: int
    dropped: str | None
    """Why it came to nothing, where it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """One attempt to change the skill: a step, the slow update of an epoch, what an open step handed over, or
    the pruning at the end.
    """

    name: str
    short: str
    at: float
    """Where it stands on the axis of steps; what is no closed step stands between two of them."""
    step: int
    epoch: int
    action: str
    why: str
    train: float | None = None
    """Mean of the step's rollouts, made with the skill before it."""
    train_rows: int = 0
    candidate: float | None = None
    """The candidate's val score, where it was measured in full."""
    bound: float | None = None
    incumbent: float | None = None
    """The score it was compared with."""
    policy: str = ""
    decided_by: str = ""
    """The part of the policy that fixed the verdict; empty where nothing was measured."""
    score: float | None = None
    """The current skill's val score after the verdict."""
    rows_used: int = 0
    rows_total: int = 0
    limit: int | None = None
    verified: bool = True
    edits: Sequence[EditFact] = ()
    studies: Sequence[Study] = ()
    invalid: Sequence[tuple[str, str, str]] = ()
    """Rows that could not be measured: task, kind, detail."""
    candidates: Sequence[CandidateRecord] = ()
    """What the step tried, the bundle first."""
    text: str = ""
    """The guidance a slow update proposed."""
    notes: Sequence[str] = ()
    """Reminders the analysts wrote for the appendix."""
    diff: str = ""
    """What the change did to the skill; empty where it was not taken."""
    tried: str = ""
    """What a rewrite that was not taken would have done to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A task's outcome with one version; `note` says more where there is more to say."""

    mark: Mark
    note: str = ""
    rollouts: Sequence[tuple[str, int]] = ()
    """Key and attempt of each stored trajectory, one a draw."""
    tokens: int | None = None
    """Over all draws; None is unknown."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A skill that was measured on val, in full or as far as its verdict needed."""

    short: str
    name: str
    action: str
    cells: Mapping[str, Cell]
    at: float = 0.0
    """Where it stands on the axis of steps; the seed stands at 0."""
    text: str = ""
    """The skill as the target got it; empty where the log does not hold it."""
    score: float | None = None
    """Its val score, where it was measured in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A run as far as it was decided."""

    benchmark: str
    target: str
    optimizer: str
    simulated: bool
    status: str
    planned: int
    counts: Mapping[str, int]
    claim: str = ""
    significance: Significance = "not proven yet"
    """What the test shows of the best skill."""
    remarks: Sequence[str] = ()
    """What a reader must know before he believes the figures."""
    metric: str = "hard"
    baseline: float | None = None
    current: float | None = None
    """The val score of the skill that the next change begins from."""
    best: float | None = None
    best_origin: str = ""
    changes: Sequence[SkillChange] = ()
    versions: Sequence[Version] = ()
    tasks: Sequence[str] = ()
    """The val tasks in planned order."""
    test: TestReport = field(default_factory=lambda: TestReport(measured=False))
    looks: int = 0
    """How often the test split was looked at, `looks_by_eval` of them by evaluations noted in the folder."""
    looks_by_eval: int = 0
    spending: Mapping[tuple[Role, str], Total] = field(default_factory=dict)
    """What was spent, by role and stage; `spent` is all of it. Calls in flight are not in it, those that a
    process left when it died are.
    """
    spent: Total = field(default_factory=lambda: Account().total())
    seed_skill: str = ""
    best_skill: str = ""
    best_diff: str = ""
    config: Sequence[tuple[str, str]] = ()

    @property
    def steps(self) -> list[SkillChange]:
        """The closed steps alone."""
        return [change for change in self.changes if change.at == change.step]
