"""A scorer is part of what a run is: another one is another run, and what its scores say decides what the
gate reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from claims._product import SEED_SKILL, RunConflict, UsageError, code_of, family_of, skillopt


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "skill.md").write_text(SEED_SKILL)
    cases = [f"W00{number:04d}" for number in range(50)]
    rows = [
        {"id": case, "prompt": f"Case {case}, about {family_of(case)}.", "answer": code_of(case)}
        for case in cases
    ]
    options = {"train.folds": 1, "train.num_epochs": 1, "train.batch_size": 10}
    return {
        "skill": tmp_path / "skill.md",
        "tasks": rows,
        "target": "world",
        "optimizer": "world",
        "out": tmp_path / "run",
        "options": options,
    }


def summary(given: dict[str, Any]) -> dict[str, Any]:
    return json.loads((given["out"] / "summary.json").read_text())


def test_another_scorer_in_the_same_folder_is_refused_and_never_served_old_scores(given):
    skillopt.optimize(scorer=lambda task, answer: task.reference in answer, **given)
    with pytest.raises(RunConflict, match="scorer"):
        skillopt.optimize(scorer=lambda task, answer: False, **given)


def test_a_run_database_serves_as_cache_for_the_same_run_with_another_scorer(given, tmp_path):
    skillopt.optimize(scorer=lambda task, answer: task.reference in answer, **given)
    again = {
        **given,
        "out": tmp_path / "again",
        "options": {**given["options"], "cache.path": str(given["out"] / "run.db")},
    }
    skillopt.optimize(scorer=lambda task, answer: bool(task.reference in answer), **again)
    assert "selection" not in summary(again)["token_summary"]  # nothing of the target's work was paid again
    assert "test" not in summary(again)["token_summary"]


def test_a_scorer_that_silently_gives_partial_credit_makes_the_gate_read_soft_and_says_so(given):
    heard = []
    result = skillopt.optimize(
        scorer=lambda task, answer: 0.9 if task.reference in answer else 0.2, on_event=heard.append, **given
    )
    assert summary(given)["gate_metric"] == "soft"
    assert result.test is not None and result.test.after > result.test.before
    assert "(soft score)" in result.claim
    assert any("soft score" in getattr(event, "text", "") for event in heard)


def test_a_scorer_with_its_own_pass_mark_is_read_as_hard(given):
    def scorer(task, answer):
        right = task.reference in answer
        return skillopt.Score(hard=float(right), soft=0.9 if right else 0.2)

    skillopt.optimize(scorer=scorer, **given)
    assert summary(given)["gate_metric"] == "hard"


async def test_inside_a_running_loop_the_error_names_the_async_twin(given):
    with pytest.raises(UsageError, match="aoptimize"):
        skillopt.optimize(scorer="exact_match", **given)
    result = await skillopt.aoptimize(scorer="contains", **given)
    assert result.status == "finished"


def test_a_skill_folder_a_tasks_file_and_a_scorers_name_are_enough_and_the_folder_comes_back_whole(
    given, tmp_path
):
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given["tasks"]))
    home = tmp_path / "my-skill"
    (home / "references").mkdir(parents=True)
    (home / "SKILL.md").write_text("---\nname: my-skill\ndescription: Codes for cases.\n---\n" + SEED_SKILL)
    (home / "references" / "codes.md").write_text("a table\n")
    result = skillopt.optimize(
        scorer="contains", **{**given, "skill": home, "tasks": tmp_path / "tasks.jsonl"}
    )
    whole = given["out"] / "best_skill" / "my-skill"
    assert (whole / "SKILL.md").read_text() == result.best_skill
    assert (whole / "references" / "codes.md").read_text() == "a table\n"
    assert result.best_skill.startswith("---\nname: my-skill\ndescription: Codes for cases.\n---\n")


def test_there_are_at_most_forty_public_names():
    assert len(skillopt.__all__) <= 40
    assert all(getattr(skillopt, name) is not None for name in skillopt.__all__)
