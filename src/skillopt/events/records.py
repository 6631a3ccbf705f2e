"""The public records that a step, an epoch and their stages leave, with the field names of public files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Fact(BaseModel):
    """A frozen value of the log; a key that is not declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SparseFact(Fact):
    """A fact that leaves out a key which is None where that is its default."""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = write(self)
        fields = type(self).model_fields
        return {key: one for key, one in data.items() if one is not None or fields[key].default is not None}


class StageTokens(Fact):
    """What the stored replies of one stage used."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


class RankingRecord(SparseFact):
    """What the optimizer model said when it ranked; with `fallback` the first proposals were taken."""

    fallback: bool
    reasoning: str | None = None
    selected_indices: Sequence[int] | None = None
    error: str | None = None


class LimitRecord(SparseFact):
    """How the optimizer model chose the limit of a step."""

    learning_rate: int
    raw_learning_rate: int | None
    available_update_items: int
    clamped: bool = False
    fallback: bool = False
    reasoning: str = ""
    confidence: str | None = None
    risk_notes: Sequence[str] | None = None
    error: str | None = None


class EditCounts(Fact):
    """How many proposals of a step ended how."""

    total: int
    applied: int
    skipped: int
    errors: int


class CandidateRecord(Fact):
    """One candidate that a step tried. Number 0 is the bundle of everything that was selected."""

    id: int
    edits: Sequence[str]
    """Ids of the proposals in it."""
    action: str
    why: str
    rows: int
    """Val rows that its verdict took."""


class StepRecord(SparseFact):
    """The public record of a step. Where a later candidate was accepted, the figures are that one's."""

    step: int
    epoch: int
    step_in_epoch: int
    edit_budget: int | None
    lr_control_mode: str
    lr_decision: LimitRecord | None = None
    timing: Mapping[str, float]
    tokens: Mapping[str, StageTokens]
    rollout_hard: float | None
    rollout_soft: float | None
    rollout_n: int
    rollout_invalid: Mapping[str, int]
    rollout_failures: Mapping[str, int]
    n_patches: int
    n_failure_patches: int
    n_success_patches: int
    n_minibatches: int
    n_minibatches_dropped: int
    n_contrasted_tasks: int | None = None
    n_edits_merged: int
    n_edits_ranked: int
    support_counts: Sequence[Any]
    candidate_hash: str
    candidate_skill_len: int
    edit_states: Mapping[str, int]
    edit_apply_summary: EditCounts
    rewrite_change_summary: Sequence[str] | None = None
    n_execution_lapse_notes: int | None = None
    n_appendix_notes_added: int | None = None
    n_appendix_notes_total: int | None = None
    n_appendix_notes_consolidated: bool | None = None
    selection_hard: float | None
    selection_soft: float | None
    selection_bound: float | None
    selection_rows: int
    selection_rows_total: int
    selection_rows_all: int
    """Rows of all verdicts of the step together."""
    gate_metric: str
    candidate_gate_score: float | None
    why: str
    verified: bool
    candidates: Sequence[CandidateRecord]
    action: str
    current_score: float | None
    best_score: float
    best_step: int
    current_origin: str
    best_origin: str
    skill_len: int
    wall_time_s: float

    @property
    def accepted(self) -> CandidateRecord | None:
        """The candidate that the step ended with: the last one that passed the gate."""
        return next((one for one in reversed(self.candidates) if one.action == "accept"), None)


class EpochRecord(Fact):
    """What closes an epoch."""

    epoch: int
    tokens: Mapping[str, StageTokens]


class ReopenedRecord(Fact):
    """Steps from that number on are open again."""

    from_step: int


class SlowUpdateRecord(SparseFact):
    """What the slow update of an epoch came to; `why` is None where none was wanted."""

    action: str
    why: str | None = None
    reasoning: str | None = None
    slow_update_content: str | None = None
    candidate_hash: str | None = None
    selection_hard: float | None = None
    selection_soft: float | None = None
    prev_hard: float | None = None
    curr_hard: float | None = None


class MetaSkillRecord(SparseFact):
    """What the meta skill of an epoch came to."""

    action: str
    why: str | None = None
    reasoning: str | None = None
    meta_skill_content: str | None = None


class ArmRecord(Fact):
    """How a task went with one of two skills."""

    hard: float
    soft: float
    predicted_answer: str
    fail_reason: str


class PairRecord(Fact):
    """One training task with the older and with the newer skill."""

    id: str
    task: str
    category: Literal["regressed", "persistent_fail", "improved", "stable_success"]
    prev: ArmRecord
    curr: ArmRecord
