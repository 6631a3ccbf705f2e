"""What a run reports, one small typed event each, read by progress, report, dashboard, trackers and tests.

An event with an `id` is a decided fact: written once, in the same order in every run of the same identity. An
event without one is *live*: it tells a watcher what is going on and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from skillopt.events.place import Place
from skillopt.events.records import (
    EpochRecord,
    Fact,
    LimitRecord,
    MetaSkillRecord,
    PairRecord,
    RankingRecord,
    ReopenedRecord,
    SlowUpdateRecord,
    StepRecord,
)
from skillopt.events.state import MemoryEntry, State
from skillopt.skill.edits import Edit, Outcome

SCHEMA = 3
"""The form of the log and of run.db. Another number is a folder that this version cannot go on with."""


class _Event(Fact):
    id: str | None = None
    time: str = Field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="milliseconds"))


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Row:
    """One measured row: a score, or the kind of its invalidity. With slots, as readers hold thousands."""

    task: str
    draw: int = 0
    attempt: int = 0
    hard: float | None = None
    soft: float | None = None
    failure: str | None = None
    invalid: str | None = None
    detail: str = ""
    rollout: str | None = None
    """Key of the stored trajectory."""
    tokens: int | None = None
    """Of the target, in and out; None is unknown."""
    seconds: float | None = None
    """Of the target's calls together; None is unknown."""
    target: str | None = None
    """Whose row it is, where a skill is trained for several targets."""


class RunStarted(_Event):
    """The first event of a run: what it is."""

    type: Literal["run_started"] = "run_started"
    schema_version: int = SCHEMA
    identity: str
    """Digest of what can change a result; a log belongs to one."""
    benchmark: str
    target: str
    optimizer: str
    simulated: bool
    steps: int
    counts: dict[str, int]


class StageClosed(_Event):
    """Exactly the rows a stage used, in planned order."""

    type: Literal["stage_closed"] = "stage_closed"
    place: Place
    stage: str
    rows: list[Row]


class Minibatch(Fact):
    """What one analyst made of its rollouts; `dropped` says why there is nothing."""

    kind: Literal["failure", "success"]
    index: int
    tasks: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    summary: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    """Reminders for the appendix, where skill-aware reflection is on."""
    dropped: str | None = None
    contrasted: tuple[str, ...] = ()
    """Those of its tasks whose tries went differently, so that the best was shown against the worst."""


class Reflected(_Event):
    type: Literal["reflected"] = "reflected"
    place: Place
    patches: tuple[Minibatch, ...]


class TrialFact(Fact):
    """Edits that were put into a skill together, and the rows on which that was tried."""

    edits: list[str]
    """Ids of the edits; none is the skill as it is, drawn once more."""
    rows: list[Row]


class Proved(_Event):
    """Every trial of a step's edits on failed train tasks, in planned order."""

    type: Literal["proved"] = "proved"
    place: Place
    noise: float
    """Share of rows that came out differently when the skill as it is was drawn again; 0 below two."""
    trials: list[TrialFact]


class Blamed(_Event):
    """Which edits of a candidate break rows that worked: parts of it were tried on just those rows."""

    type: Literal["blamed"] = "blamed"
    place: Place
    stage: Literal["control", "blame", "prune"]
    """On passed train tasks before the gate, on val rows that the candidate broke, or on val rows that stay
    wrong, each time without one weakly proven edit.
    """
    trials: list[TrialFact]
    guilty: list[str]
    fixes: dict[str, int] = Field(default_factory=dict)
    """Of a control that looked for the guilty: the train tasks for which each edit is needed."""


class Aggregated(_Event):
    type: Literal["aggregated"] = "aggregated"
    place: Place
    merges: int
    edits: tuple[Edit, ...]
    joined: list[list[str]] = Field(default_factory=list)
    """Ids of edits that say the same in other words, the one that stands for them first."""
    copies: list[list[str]] = Field(default_factory=list)
    """Ids of edits in the same words, the one that stands for them first."""
    asked: list[str] = Field(default_factory=list)
    """Ids of the edits of which the optimizer model was asked which say the same, by their numbers."""


class Selected(_Event):
    type: Literal["selected"] = "selected"
    place: Place
    limit: int | None
    """None where nothing limits a step."""
    ranked: bool
    ranking: RankingRecord | None = None
    """What the optimizer model said when it ranked, where it was asked."""
    edits: tuple[Edit, ...]
    decision: LimitRecord | None = None
    """How the optimizer model chose the limit, where it did."""


class Updated(_Event):
    """A candidate of a step. Candidate 0 also tells the one state in which every proposed edit ended."""

    type: Literal["updated"] = "updated"
    place: Place
    """Of the candidate: `place.candidate` is its number among those of the step."""
    digest: str
    """Of the candidate's rendered text."""
    skill: str
    """Digest of its whole text with the region markers; the run's database holds the text."""
    outcomes: tuple[Outcome, ...]
    rewrite: Edit | None = None
    """The whole skill that was written, or why it cannot be used."""
    notes: list[str] | None = None
    """The appendix after the update, where notes were added to it."""


class Judged(_Event):
    """A verdict of the gate on one candidate."""

    type: Literal["judged"] = "judged"
    place: Place
    action: str
    metric: str
    incumbent: float | None
    candidate: float | None
    bound: float | None
    """Upper bound of a rejected candidate's score on the rows that decided."""
    rows_used: int
    rows_total: int
    verified: bool
    why: str
    policy: str = "strict"
    decided_by: str = ""
    """The part of the policy that fixed the verdict; empty where nothing was measured."""
    skill: str = ""
    """Digest of the candidate's rendered text; empty where nothing was measured."""
    over: str = ""
    """Digest of an accepted candidate of the same step, where it was measured against that one."""


CheckpointKind: TypeAlias = Literal["baseline", "step", "epoch", "finish", "reopened"]


class Checkpoint(_Event):
    """A point from which a run goes on: `state`, and the memory entries of all checkpoints up to here."""

    type: Literal["checkpoint"] = "checkpoint"
    kind: CheckpointKind
    state: State
    record: Annotated[StepRecord | EpochRecord | ReopenedRecord | None, Field(union_mode="left_to_right")] = (
        None
    )
    """What was closed or opened again here."""
    remembered: list[MemoryEntry] = Field(default_factory=list)
    """What later analysts are told of the step that closed here."""


class EpochEnded(_Event):
    """What the slow update and the meta skill of an epoch came to."""

    type: Literal["epoch_ended"] = "epoch_ended"
    epoch: int
    slow_update: SlowUpdateRecord
    meta_skill: MetaSkillRecord
    pairs: list[PairRecord] = Field(default_factory=list)
    """The training tasks that were compared, as they went with either skill."""


class LineWorth(Fact):
    """What a learned line of the best skill is worth."""

    text: str
    val: float
    """Mean loss on val without it."""
    needed: list[str]
    """Tasks that are worse without it twice: those of val, or where there is none those of train."""
    removed: bool


class Pruned(_Event):
    """The best skill at the end, without the lines that nothing measured was worse without."""

    type: Literal["pruned"] = "pruned"
    place: Place
    skill: str
    score: float
    rows: list[Row] = Field(default_factory=list)
    """The val rows of that score."""
    lines: list[LineWorth]


class TestMeasured(_Event):
    """The sealed test was opened; `look` counts how often."""

    __test__ = False  # not a test class

    type: Literal["test_measured"] = "test_measured"
    look: int
    folds: int = 0
    """In how many parts tasks were cross-fitted, if they were: rows of "best" are then the folds' own."""
    draws: int = 1
    """Of how many draws of its task a row of the folds is the one in the middle."""
    kinds: dict[str, str] = Field(default_factory=dict)
    """The type of each task, where tasks have types."""
    skills: dict[str, str]
    rows: dict[str, list[Row]]


class HandedOver(_Event):
    """The budget ended a step, and the gate accepted what it had found: the best skill of the run until a
    checkpoint follows. The step stays open, so this decides nothing and has no id.
    """

    type: Literal["handed_over"] = "handed_over"
    place: Place
    skill: str
    score: float
    incumbent: float
    rows: list[Row] = Field(default_factory=list)
    """The val rows of that score."""
    edits: list[str]
    why: str

    def onto(self, state: State) -> State:
        """The state with this as its best skill."""
        step = self.place.step
        return state.replace(
            best=self.skill, best_score=self.score, best_step=step, best_origin=f"step_{step:04d}"
        )


class Notice(_Event):
    """A sentence for the person."""

    type: Literal["notice"] = "notice"
    text: str
    level: Literal["info", "warning"] = "info"


class StageOpened(_Event):
    type: Literal["stage_opened"] = "stage_opened"
    place: Place
    stage: str
    total: int
    part: str = ""
    """The round or fold of a cross-fitted run that works, in words; empty for the run itself."""


class Arrived(_Event):
    """A rollout came in."""

    type: Literal["arrived"] = "arrived"
    stage: str
    hard: float | None
    invalid: str | None
    resumed: bool


class Answered(_Event):
    """One of the first answers to the baseline, for a person who looks before more is paid. Not kept."""

    type: Literal["answered"] = "answered"
    task: str
    prompt: str
    answer: str
    expected: str
    hard: float
    feedback: str


class Spending(_Event):
    """Totals after a call settled, what is set aside for those in flight, and the calls planned in all."""

    type: Literal["spending"] = "spending"
    calls: int
    tokens: int
    usd: float | None
    in_flight: int
    tokens_reserved: int = 0
    planned: float | None = None


class Called(_Event):
    """A call to a model settled; told only where somebody wants to know."""

    type: Literal["called"] = "called"
    role: str
    stage: str
    place: str
    provider: str
    model: str
    outcome: str
    """settled, refused, or unreported: sent, and never answered in full."""
    seconds: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    usd: float | None = None


Event: TypeAlias = Annotated[
    RunStarted
    | StageClosed
    | Reflected
    | Proved
    | Aggregated
    | Selected
    | Updated
    | Blamed
    | Judged
    | Checkpoint
    | EpochEnded
    | Pruned
    | TestMeasured
    | HandedOver
    | Notice
    | StageOpened
    | Arrived
    | Answered
    | Spending
    | Called,
    Field(discriminator="type"),
]
Sink: TypeAlias = Callable[[Event], None]

_adapter: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(line: str | bytes) -> Event:
    """Read one line of `events.jsonl`."""
    return _adapter.validate_json(line)
