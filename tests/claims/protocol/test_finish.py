"""The end of a run as the protocol documents it (section 1.6): what is validated, what is tested, what is
said.
"""

from __future__ import annotations

import json

import pytest

from claims._product import Judged, LoopbackProvider, StageClosed, TestMeasured
from claims.protocol._told import GOOD, LEARNING, job_of, run

GUIDED = {
    **LEARNING,
    "slow_update": lambda call: json.dumps(
        {"slow_update_content": "\n".join(f"- {text}" for text in GOOD[4:])}
    ),
}
UNGATED = {
    "optimizer__slow_update_gate_with_selection": False,
    "evaluation__eval_test": False,
    "train__batch_size": 16,
    "env__val_cases": 40,
}


async def test_with_the_gate_on_the_current_skill_is_the_best_and_nothing_is_validated_again(folder):
    """Publicly the last skill may be better than the best one without anybody knowing, so it is measured on
    val once more.
    """
    told = await run(folder)
    assert any(record["action"].startswith("accept") for record in told.steps)
    for kind in ("baseline", "step", "epoch", "finish"):
        for state in told.states(kind):
            assert (state.skill, state.score) == (state.best, state.best_score)
    measured = [str(event.place) for event in told.of(StageClosed) if event.stage == "selection"]
    assert measured == ["baseline", *(str(event.place) for event in told.of(Judged) if event.rows_used)]
    assert told.summary["final_test_hard"] is None and not (folder / "test_eval_final").exists()


@pytest.mark.slow
async def test_seed_and_best_are_tested_on_the_same_tasks_and_compared_in_pairs(folder):
    """Publicly two means stand side by side; a difference without an interval says little on a
    hundred tasks.
    """
    told = await run(folder, LEARNING, env__val_cases=24, env__test_cases=24)
    (opened,) = told.of(TestMeasured)
    assert set(opened.rows) == {"seed", "best"}
    assert [row.task for row in opened.rows["seed"]] == [row.task for row in opened.rows["best"]]
    summary = told.summary
    means = {name: sum(row.hard for row in rows) / len(rows) for name, rows in opened.rows.items()}
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (means["seed"], means["best"])
    compared = summary["test"]["comparison"]
    assert compared["delta"] == pytest.approx(means["best"] - means["seed"]) and compared["delta"] > 0
    assert compared["interval"][0] < compared["delta"] < compared["interval"][1]
    for name in ("test_eval_baseline", "test_eval"):
        lines = (folder / name / "results.jsonl").read_text().splitlines()
        assert len(lines) == 24 and json.loads((folder / name / "summary.json").read_text())["n"] == 24


@pytest.mark.slow
async def test_a_last_ungated_slow_update_competes_for_best_also_without_a_test(folder):
    """Publicly it does so only in the validation that comes with the test."""
    told = await run(folder, GUIDED, **UNGATED)
    last = told.states("epoch")[-1]
    best = told.skill(last.best)
    assert "SLOW_UPDATE_START" in best.text and last.best == last.skill
    assert (folder / "best_skill.md").read_text() == best.rendered
    assert told.summary["best_gate_score"] == last.best_score and told.summary["test_hard"] is None
    assert not told.of(TestMeasured)


@pytest.mark.slow
async def test_the_best_skill_of_a_run_protects_its_guidance_again_as_the_next_seed(folder):
    """Publicly the marks stand in `best_skill.md`; ours is the text that was measured, byte for byte, and the
    run's own copy brings the marks back.
    """
    told = await run(folder, GUIDED, **UNGATED)
    best = told.skill(told.states("epoch")[-1].best)
    elsewhere = folder.parent / "elsewhere.md"
    elsewhere.write_text((folder / "best_skill.md").read_text())
    async with LoopbackProvider(told.answer) as provider:
        again, copied = (
            job_of(provider, {"env__skill_init": str(path)}).skill
            for path in (folder / "best_skill.md", elsewhere)
        )
    assert again.rendered == copied.rendered == best.rendered
    assert again.text == best.text and GOOD[4] in (again.region("slow_update") or "")
    assert copied.region("slow_update") is None
