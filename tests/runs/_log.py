"""Logs written by hand, for what a real small run does not show: odd texts, invalid rows, many steps."""

from __future__ import annotations

from typing import Any

from skillopt.events import (
    Checkpoint,
    Event,
    Judged,
    PatchFact,
    Reflected,
    RowFact,
    RunStarted,
    StageClosed,
    TestMeasured,
    Updated,
)

SEED = "# Rules\n\n- Read.\n"


def started(**changes: Any) -> RunStarted:
    about: dict[str, Any] = {
        "benchmark": "own",
        "target": "a:model",
        "optimizer": "b:model",
        "simulated": False,
        "steps": 2,
    }
    return RunStarted(
        id="run", identity="1", counts={"train": 4, "val": 6, "test": 6}, **{**about, **changes}
    )


def row(task: str, hard: float | None, **changes: Any) -> RowFact:
    return RowFact(
        task=task, hard=hard, soft=hard, **{"invalid": "timeout" if hard is None else None, **changes}
    )


def closed(place: str, rows: list[RowFact], stage: str = "selection") -> StageClosed:
    return StageClosed(id=f"{place}/{stage}", place=place, stage=stage, rows=rows)


def state(skill: str = SEED, score: float | None = 0.5, **changes: Any) -> dict[str, Any]:
    about = {
        "seed": SEED,
        "skill": skill,
        "best": skill,
        "score": score,
        "best_score": 0.5 if score is None else score,
    }
    more = {
        "baseline_score": 0.5,
        "metric": "hard",
        "step": 0,
        "best_origin": "initial_skill",
        "left_out": [],
        "finished": False,
    }
    return {**about, **more, **changes}


def baseline(rows: list[RowFact], **changes: Any) -> list[Event]:
    return [
        closed("baseline", rows),
        Checkpoint(id="baseline/baseline", kind="baseline", state=state(**changes)),
    ]


def step(
    number: int,
    rows: list[RowFact],
    *,
    action: str = "accept_new_best",
    why: str = "better",
    skill: str = SEED + "- New.\n",
    score: float | None = 0.75,
    outcomes: list[dict[str, Any]] | None = None,
    rollouts: list[RowFact] | None = None,
    studied: list[PatchFact] | None = None,
    verified: bool = True,
) -> list[Event]:
    place = f"e1/s{number}"
    judged = "accept" if action.startswith("accept") else "reject"
    verdict = Judged(
        id=f"{place}/verdict", place=place, action=judged, metric="hard", incumbent=0.5, candidate=score, bound=None,
        rows_used=len(rows), rows_total=6, verified=verified, why=why,
    )  # fmt: skip
    record = {"step": number, "epoch": 1, "action": action, "why": why, "edit_budget": 4}
    return [
        closed(place, rollouts or [row("train-1", 1.0), row("train-2", 0.0)], "rollout"),
        Reflected(id=f"{place}/reflect", place=place, patches=studied or []),
        Updated(id=f"{place}/update", place=place, candidate="c", skill=skill, outcomes=outcomes or []),
        closed(place, rows),
        verdict,
        Checkpoint(
            id=f"{place}/step",
            kind="step",
            state=state(skill, score, step=number, best_origin=f"step_{number:04d}"),
            record=record,
        ),
    ]


def look(seed: list[RowFact], best: list[RowFact], number: int = 1) -> TestMeasured:
    return TestMeasured(
        id=f"test/{number}", look=number, skills={"seed": "a", "best": "b"}, rows={"seed": seed, "best": best}
    )


def six(*hard: float | None) -> list[RowFact]:
    return [row(f"t{number}", one) for number, one in enumerate(hard)]
