"""Logs written by hand, for what a real small run does not show: odd texts, invalid rows, many steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skillopt.events import (
    Checkpoint,
    Event,
    Judged,
    Minibatch,
    Reflected,
    Row,
    RunStarted,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.events.records import CandidateRecord, EditCounts, StepRecord
from skillopt.events.state import State
from skillopt.optimizer.replies import Candidates, Edits, Suggestions
from skillopt.runs.fold import Fold
from skillopt.runs.versions import versions_of
from skillopt.runs.view import RunView, mixed_weight
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Outcome
from skillopt.skill.store import Skills

SEED = "# Rules\n\n- Read.\n"


def started(**changes: Any) -> RunStarted:
    about: dict[str, Any] = {
        "identity": "1",
        "benchmark": "own",
        "target": "a:model",
        "optimizer": "b:model",
        "simulated": False,
        "steps": 2,
    }
    return RunStarted(id="run", **{"counts": {"train": 4, "val": 6, "test": 6}, **about, **changes})


def row(task: str, hard: float | None, **changes: Any) -> Row:
    return Row(task=task, hard=hard, soft=hard, **{"invalid": "timeout" if hard is None else None, **changes})


def closed(place: str, rows: list[Row], stage: str = "selection") -> StageClosed:
    return StageClosed(id=f"{place}/{stage}", place=place, stage=stage, rows=rows)


TEXTS: dict[str, str] = {}
SKILLS = Skills(TEXTS.get)
"""The skills that logs written here name."""


def kept(text: str) -> str:
    """The digest that names a text in these logs."""
    digest = Document(text).text_digest
    TEXTS[digest] = text
    return digest


def fold(events: Iterable[Event], skills: Skills = SKILLS, **about: Any) -> RunView:
    """The view of a log that stands in no folder."""
    weight = mixed_weight(about.get("config"))
    folded = Fold(lambda section: versions_of(section, skills, weight))
    for event in events:
        folded.take(event)
    return RunView.of(folded, skills, **about)


def state(skill: str = SEED, score: float | None = 0.5, **changes: Any) -> State:
    about: dict[str, Any] = {
        "seed": kept(SEED),
        "skill": kept(skill),
        "best": kept(skill),
        "score": score,
        "best_score": 0.5 if score is None else score,
        "baseline_score": 0.5,
        "metric": "hard",
    }
    return State(**{**about, **changes})


def record(step: int = 1, **changes: Any) -> StepRecord:
    """A step record in which only what a test is about differs."""
    about: dict[str, Any] = {
        "step": step,
        "epoch": 1,
        "step_in_epoch": step,
        "action": "reject",
        "why": "",
        "edit_budget": 4,
        "lr_control_mode": "fixed",
        "timing": {},
        "tokens": {},
        "rollout_invalid": {},
        "rollout_failures": {},
        "support_counts": [],
        "candidate_hash": "",
        "edit_states": {},
        "edit_apply_summary": EditCounts(total=1, applied=1, skipped=0, errors=0),
        "gate_metric": "hard",
        "verified": True,
        "candidates": [],
        "best_score": 0.5,
        "current_origin": "initial_skill",
        "best_origin": "initial_skill",
        "wall_time_s": 1.0,
    }
    unset = {name: field for name, field in StepRecord.model_fields.items() if field.is_required()}
    empty = {
        name: None if "None" in str(field.annotation) else 0
        for name, field in unset.items()
        if name not in about
    }
    return StepRecord(**{**empty, **about, **changes})


def baseline(rows: list[Row], **changes: Any) -> list[Event]:
    return [
        closed("baseline", rows),
        Checkpoint(id="baseline/baseline", kind="baseline", state=state(**changes)),
    ]


def proposal(said: dict[str, Any], id: str) -> Edit:
    """A proposal of any update mode as its analyst would have made it."""
    shape = Candidates if "new_skill" in said else Edits if "op" in said else Suggestions
    return shape.edit_of(said, id)


def step(
    number: int,
    rows: list[Row],
    *,
    action: str = "accept_new_best",
    why: str = "better",
    skill: str = SEED + "- New.\n",
    score: float | None = 0.75,
    outcomes: list[dict[str, Any]] | None = None,
    candidates: Sequence[CandidateRecord] = (),
    rollouts: list[Row] | None = None,
    studied: list[Minibatch] | None = None,
    verified: bool = True,
) -> list[Event]:
    place = f"e1/s{number}"
    judged = "accept" if action.startswith("accept") else "reject"
    verdict = Judged(
        id=f"{place}/verdict", place=place, action=judged, metric="hard", incumbent=0.5, candidate=score, bound=None,
        rows_used=len(rows), rows_total=6, verified=verified, why=why,
    )  # fmt: skip
    told = record(number, action=action, why=why, candidates=candidates)
    ended = [
        Outcome(edit=proposal(one.pop("edit"), one.pop("id")), **one) for one in map(dict, outcomes or [])
    ]
    return [
        closed(place, rollouts or [row("train-1", 1.0), row("train-2", 0.0)], "rollout"),
        Reflected(id=f"{place}/reflect", place=place, patches=studied or []),
        Updated(id=f"{place}/update", place=place, digest="c", skill=kept(skill), outcomes=ended),
        closed(place, rows),
        verdict,
        Checkpoint(
            id=f"{place}/step",
            kind="step",
            state=state(skill, score, step=number, best_origin=f"step_{number:04d}"),
            record=told,
        ),
    ]


def look(seed: list[Row], best: list[Row], number: int = 1) -> TestMeasured:
    return TestMeasured(
        id=f"test/{number}", look=number, skills={"seed": "a", "best": "b"}, rows={"seed": seed, "best": best}
    )


def six(*hard: float | None) -> list[Row]:
    return [row(f"t{number}", one) for number, one in enumerate(hard)]
