"""Each example trains as its README says, with a loopback provider in the place of the cloud."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from skillopt import api
from skillopt.build import Engine, prepare
from skillopt.config import load
from skillopt.testing import Call, LoopbackProvider

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = "- Write dates as year-month-day with two digits each, like 2024-03-05."
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]


def answer(call: Call) -> str:
    """A scripted target that reads dates well and writes them the house's way once the skill says so."""
    if not (call.place or "").startswith("rollout/"):
        return json.dumps(
            {"patch": {"edits": [{"op": "append", "content": RULE}]}, "edits": [], "slow_update_content": "", "meta_skill_content": ""}
        )
    question = call.body["messages"][-1]["content"]
    month = next(name for name in MONTHS if name in question)
    year, day = re.search(r"\b(19|20)\d\d\b", question)[0], int(re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b(?! days)", question)[1])
    house = f"{year}-{MONTHS.index(month) + 1:02d}-{day:02d}"
    return f"<answer>{house if RULE in call.body['messages'][0]['content'] else f'{month} {day}, {year}'}</answer>"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
async def test_the_example_trains(name: str, tmp_path: Path) -> None:
    async with LoopbackProvider(answer) as provider:
        environ = {"OPENAI_API_KEY": "planted-key-123", "OPENAI_BASE_URL": provider.base_url}
        prices = [f"model.{role}.price.{part}=1.0" for role in ("target", "optimizer") for part in ("input", "output")]
        resolved = load(str(EXAMPLES / name / "train.yaml"), flags={}, options=prices, environ=environ, cwd=tmp_path)
        job = prepare(resolved)
        assert {split: len(job.splits.of(split)) for split in ("train", "val", "test")} == {"train": 16, "val": 16, "test": 8}
        assert job.repeats == 2
        async with Engine(job, tmp_path / "run") as engine:
            result = await api.train(engine)
    assert result.test is not None
    assert (result.test.before, result.test.after) == (0.0, 1.0)
    assert (tmp_path / "run" / "best_skill" / "house-dates" / "SKILL.md").read_text() == result.best_skill
    assert RULE in result.best_skill
