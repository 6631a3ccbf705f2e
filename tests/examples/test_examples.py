"""The examples train as their READMEs say, with a loopback provider in the place of the models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from skillopt.config.load import load
from skillopt.optimizer.ask import packaged
from skillopt.run import open_run, prepare, train

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = "- Write dates as year-month-day with two digits each, like 2024-03-05."
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def answer(call: Call) -> str:
    """A scripted target that reads dates well and writes them the house's way once the skill says so."""
    if not (call.place or "").startswith("rollout/"):
        return json.dumps(
            {
                "edits": [{"op": "append", "content": RULE}],
                "slow_update_content": "",
                "meta_skill_content": "",
            }
        )
    question = call.body["messages"][-1]["content"]
    month = next(name for name in MONTHS if name in question)
    year, day = (
        re.search(r"\b(19|20)\d\d\b", question)[0],
        int(re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b(?! days)", question)[1]),
    )
    house = f"{year}-{MONTHS.index(month) + 1:02d}-{day:02d}"
    return f"<answer>{house if RULE in call.body['messages'][0]['content'] else f'{month} {day}, {year}'}</answer>"


async def test_house_dates_trains(tmp_path: Path) -> None:
    async with LoopbackProvider(answer) as provider:
        environ = {"OPENAI_API_KEY": "planted-key-123", "OPENAI_BASE_URL": provider.base_url}
        prices = [
            f"model.{role}.price.{part}=1.0"
            for role in ("target", "optimizer")
            for part in ("input", "output")
        ]
        resolved = load(
            str(EXAMPLES / "house-dates" / "train.yaml"),
            flags={},
            options=[*prices, "train.folds=1"],
            environ=environ,
            cwd=tmp_path,
        )
        job = prepare(resolved)
        assert {split: len(job.splits.of(split)) for split in ("train", "val", "test")} == {
            "train": 16,
            "val": 16,
            "test": 8,
        }
        assert job.repeats == 2
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    assert result.test is not None
    assert (result.test.before, result.test.after) == (0.0, 1.0)
    assert (tmp_path / "run" / "best_skill" / "house-dates" / "SKILL.md").read_text() == result.best_skill
    assert RULE in result.best_skill


@pytest.mark.slow
async def test_the_folder_example_learns_into_its_references(tmp_path: Path) -> None:
    config = str(EXAMPLES / "folder" / "train.yaml")
    job = prepare(load(config, flags={}, options=[], environ={}, cwd=tmp_path))
    async with open_run(job, tmp_path / "run") as opened:
        result = await train(opened)
    whole = tmp_path / "run" / "best_skill" / "house-cases"
    assert len(result.best_files) > 1 and result.test is not None and result.test.delta > 0
    assert {path: (whole / path).read_text() for path in result.best_files} == result.best_files


def by_family(call: Call) -> str:
    """A scripted model pair: an analyst with the example's prompt, or with ours for small models, says how
    records are written; the target follows that rule alone.
    """
    rule = "- Write a record as JSON."
    if not (call.place or "").startswith("rollout/"):
        asked = call.body["messages"][0]["content"]
        if asked == packaged("analyst_proof_small"):
            return json.dumps({"rule": rule, "request": "A record of Bo, please.", "answer": "[Bo]"})
        if asked != (EXAMPLES / "house-formats" / "prompts" / "analyst_failure.md").read_text():
            return "This is not the prompt I know."
        return json.dumps({"patch": {"edits": [{"op": "append", "content": rule}]}})
    found = re.search(r"person: (.+), (\d+) years old, lives in (.+)\.", call.body["messages"][-1]["content"])
    if found and rule in call.body["messages"][0]["content"]:
        return json.dumps({"name": found[1], "age": int(found[2]), "city": found[3]})
    return "I would rather not say."


@pytest.mark.slow
@pytest.mark.parametrize("config", ["train.yaml", "paper.yaml"])
async def test_house_formats_trains_with_a_prompt_for_a_small_analyst(config: str, tmp_path: Path) -> None:
    async with LoopbackProvider(by_family) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [f"model.target.name={model}", f"model.optimizer.name={model}", "train.num_epochs=1"]
        options += ["gate.policy=strict"]  # four better val tasks of twenty could be chance
        job = prepare(
            load(
                str(EXAMPLES / "house-formats" / config),
                flags={},
                options=options,
                environ={},
                cwd=tmp_path,
            )
        )
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    assert result.test is not None
    assert (result.test.before, result.test.after, result.test.n) == (0.0, 0.2, 80)


def test_the_tasks_of_house_formats_are_what_its_script_makes() -> None:
    folder = EXAMPLES / "house-formats"
    made = subprocess.run(
        [sys.executable, "-c", "import json, make_tasks; print(json.dumps(make_tasks.make()))"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    splits = json.loads(made.stdout)
    for split, rows in splits.items():
        assert [
            json.loads(line) for line in (folder / "tasks" / split / "tasks.jsonl").read_text().splitlines()
        ] == rows
    prompts = [row["prompt"] for rows in splits.values() for row in rows]
    assert len(prompts) == len(set(prompts)) == 130
    assert all(
        row["answer"] not in row["prompt"] or row["kind"] == "question"
        for rows in splits.values()
        for row in rows
    )
