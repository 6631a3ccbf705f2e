"""What a report knows of a run: the values that HTML and Markdown are written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillopt.evaluation.significance import Significance
from skillopt.events.state import Metric
from skillopt.messages import Role
from skillopt.money import Account, Total
from skillopt.runs.versions import Mark, SkillVersion, mark_of
from skillopt.train.claim import TestReport


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
    metric: Metric = "hard"
    baseline: float | None = None
    current: float | None = None
    """The val score of the skill that the next change begins from."""
    best: float | None = None
    best_origin: str = ""
    weight: float = 0.5
    """That of the soft score in a mixed one."""
    versions: Sequence[SkillVersion] = ()
    """The seed, then every attempt to change it, in order."""
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
    def changes(self) -> Sequence[SkillVersion]:
        """The attempts to change the skill."""
        return self.versions[1:]

    @property
    def steps(self) -> list[SkillVersion]:
        """The closed steps alone."""
        return [one for one in self.versions if one.record is not None]

    @property
    def measured(self) -> list[SkillVersion]:
        """The versions that val tasks were run with."""
        return [one for one in self.versions if one.rows]

    def marks(self, version: SkillVersion) -> dict[str, Mark]:
        """How each val task went with a version, of those that were run with it."""
        return {task: mark_of(rows, self.metric, self.weight) for task, rows in version.rows.items()}

    def base_of(self, version: SkillVersion) -> SkillVersion:
        """The version that one was made from: the last taken one before it; of the seed itself."""
        before = self.measured[: self.measured.index(version)]
        return next((one for one in reversed(before) if one.is_taken), version)

    def is_best(self, version: SkillVersion) -> bool:
        """Whether a version is the best skill."""
        return version.is_taken and version.text == self.best_skill
