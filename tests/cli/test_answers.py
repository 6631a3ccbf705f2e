"""Answers are in sight: `runs show` and `explain` say what was asked, expected and answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli._commands import Command


@pytest.fixture
def told(skillopt: Command, finished: Path) -> dict[str, Any]:
    data: dict[str, Any] = skillopt("runs show", str(finished), "--json").json
    return data


@pytest.mark.slow
def test_a_run_shows_its_telling_tasks_with_both_answers(
    skillopt: Command, finished: Path, told: dict[str, Any]
) -> None:
    outcomes = [one["outcome"] for one in told["tasks"]]
    alone = "asked with the seed alone"
    assert outcomes == sorted(outcomes, key=["broken", "fails", "fixed", "passes", alone].index)
    for one in told["tasks"]:
        assert (one["outcome"] == alone) == (told["best"] not in one["answers"]), one["id"]
    first = told["tasks"][0]
    shown = skillopt("runs show", str(finished)).out
    assert f"{first['split']} {first['id']}: {first['outcome']}" in shown
    assert first["question"] in shown and f"expected  {first['expected']}" in shown
    answer = first["answers"][told["seed"]][0]
    assert f"seed      {answer['text']}" in shown and answer["feedback"] in shown
    assert "more: --all shows them" in shown and shown.count("question") == 5
    failed = skillopt("runs show", str(finished), "--failed", "--json").json
    assert {one["outcome"] for one in failed["tasks"]} <= {"broken", "fails"}


def test_a_task_is_found_by_its_id(skillopt: Command, finished: Path, told: dict[str, Any]) -> None:
    fixed = next(one for one in told["tasks"] if one["outcome"] == "fixed" and one["split"] == "test")
    by_show = skillopt("runs show", str(finished), fixed["id"])
    assert by_show.out.strip() == skillopt("runs explain", str(finished), fixed["id"]).out.strip()
    assert fixed["answers"][told["best"]][0]["text"] in by_show.out


def test_a_verdict_is_explained_with_what_incumbent_and_candidate_answered(
    skillopt: Command, finished: Path
) -> None:
    records = json.loads((finished / "history.json").read_text())
    step = next(str(one["step"]) for one in records if one["action"].startswith("accept"))
    said = skillopt("runs explain", str(finished), step).out
    assert "\n  incumbent " in said and "\n  candidate " in said and "\n  question  Case" in said
