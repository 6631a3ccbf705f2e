"""Skills that are measured inside an agent bring their own files along: two folders with one text are two
skills.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli._commands import run
from harnesses._stub import stub
from skillopt.config.load import load
from skillopt.errors import RunConflict
from skillopt.evaluation.runner import PlannedRow
from skillopt.run import Job, evaluate, open_run, prepare
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang"),
    pytest.mark.timeout(60),
]
TEXT = "---\nname: house\ndescription: House rules.\n---\n\nLook it up.\n"


def skill(place: Path, reference: str) -> Path:
    folder = place / reference / "house"
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "more.md").write_text(reference)
    (folder / "SKILL.md").write_text(TEXT)
    return folder


def settings(place: Path, *more: str) -> list[str]:
    """Six tasks whose answer stands in a file that only one of the skills carries, inside a stand-in for
    Claude Code.
    """
    rows = [{"id": f"t{n}", "prompt": f"READS-REFERENCE {n}", "reference": "alpha"} for n in range(6)]
    (place / "tasks.json").write_text(json.dumps(rows))
    target = [
        "model.target=claude_code/anthropic:m@http://127.0.0.1:1",
        "model.target.api_key=sk-key-1",
        "model.optimizer=world",
    ]
    path = f"model.target.agent.path={stub(place)}"
    return [
        "env.name=own",
        f"env.data_path={place / 'tasks.json'}",
        "env.split_ratio=2:2:2",
        *target,
        path,
        *more,
    ]


def job_of(place: Path, *more: str) -> Job:
    return prepare(load(None, flags={}, options=settings(place, *more), environ={}, cwd=place))


async def test_each_skill_is_installed_with_the_files_of_its_own_folder(tmp_path: Path) -> None:
    seed, right, wrong = (skill(tmp_path, name) for name in ("seed", "alpha", "beta"))
    job = job_of(tmp_path, f"env.skill_init={seed}")
    skills = {
        "right": load_skill(right),
        "wrong": load_skill(wrong),
        "text": Document(TEXT),
        "alone": load_skill(right / "SKILL.md"),
    }
    found = await evaluate(job, skills, ["val"], tmp_path / "eval", against="wrong")
    assert {one.skill: one.hard for one in found} == {"right": 1.0, "wrong": 0.0, "text": 0.0, "alone": 1.0}
    digests = {one.skill: one.digest for one in found}
    assert digests["right"] == digests["alone"], "one skill under two names"
    assert len(set(digests.values())) == 3
    told = json.loads((tmp_path / "eval" / "eval_summary.json").read_text())
    assert {(one["skill"], one["comparison"]["delta"]) for one in told["comparisons"]} == {
        ("right", 1.0),
        ("text", 0.0),
        ("alone", 1.0),
    }
    assert [one["digest"] for one in told["comparisons"] if one["skill"] == "right"] == [digests["right"]]
    calls = told["spending"]["calls"]
    again = await evaluate(job, skills, ["val"], tmp_path / "eval", against="wrong")
    assert again == found
    assert (
        json.loads((tmp_path / "eval" / "eval_summary.json").read_text())["spending"]["calls"]
        == calls
        == 3 * 2 * 2
    )


def test_the_command_measures_folders_and_a_runs_best_skill_with_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = (skill(tmp_path, name) for name in ("alpha", "beta"))
    monkeypatch.chdir(tmp_path)
    options = settings(tmp_path, "train.num_epochs=1", "env.out_root=trained", "evaluation.repeats=1")
    trained = run("train", "--quiet", "--cfg-options", *options, f"env.skill_init={right}")
    assert trained.code == 0, trained.err
    skills = [word for name in (str(right), str(wrong), "trained", "none") for word in ("--skill", name)]
    ran = run("eval", "--json", "--split", "val", *skills, "--cfg-options", *options, "env.out_root=measured")
    assert ran.code == 0, ran.err
    measured = {one["skill"]: one["hard"] for one in json.loads(ran.out)["evaluations"]}
    assert measured == {str(right): 1.0, str(wrong): 0.0, "trained": 1.0, "none": 0.0}


async def test_a_run_inside_an_agent_belongs_to_the_files_that_its_skill_carries(tmp_path: Path) -> None:
    seed = skill(tmp_path, "alpha")
    (seed / "assets").mkdir()
    (seed / "assets" / "form.txt").write_text("one")
    job = job_of(tmp_path, f"env.skill_init={seed}", "train.num_epochs=1")
    async with open_run(job, tmp_path / "run") as opened:
        row = PlannedRow(task=job.splits.train[0])
        await opened.evaluator.measure(job.skill.rendered, row, stage="rollout")
    (seed / "assets" / "form.txt").write_text("another")
    with pytest.raises(RunConflict, match="skill_files"):
        async with open_run(job, tmp_path / "run"):
            pass
    (seed / "assets" / "form.txt").write_text("one")
    (seed / "references" / "more.md").write_text("another")
    with pytest.raises(RunConflict, match="skill: "):
        async with open_run(
            job_of(tmp_path, f"env.skill_init={seed}", "train.num_epochs=1"), tmp_path / "run"
        ):
            pass
