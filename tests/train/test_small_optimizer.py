"""A small optimizer whose worked examples are spoilt trains a target that obeys nothing but examples."""

from __future__ import annotations

import json
import re
from pathlib import Path

import skillopt
from skillopt.messages import Request
from skillopt.testing import FunctionModel

FORMS = {"colour": "COLOUR={}", "price": "USD {}", "town": "<{}>"}


def row(kind: str, number: int) -> dict[str, str]:
    return {
        "id": f"{kind}-{number}",
        "kind": kind,
        "prompt": f"What is the {kind} of thing {number}?",
        "answer": FORMS[kind].format(number),
    }


def target(request: Request) -> str:
    """Answers in the form of an example in the skill that looks like one of its kind."""
    skill, asked = request.messages[0].content, request.messages[-1].content
    kind, number = re.findall(r"the (\w+) of thing (\d+)", asked)[0]
    shown = re.search(r"Example: " + re.escape(FORMS[kind]).replace(r"\{\}", r"\d+"), skill)
    return FORMS[kind].format(number) if shown else f"It is {number}."


def optimizer(request: Request) -> str:
    return json.dumps({"rule": "Answer in the form of the house.", "request": "?", "answer": "no idea"})


async def test_rules_are_found_kind_by_kind_though_no_example_of_the_optimizer_is_right(
    tmp_path: Path,
) -> None:
    asked = FunctionModel(optimizer)
    (tmp_path / "skill.md").write_text("# House style\n")
    parts = {"train": range(5), "val": range(5, 10), "test": range(10, 15)}
    done = await skillopt.aoptimize(
        target=FunctionModel(target),
        optimizer=asked,
        tasks={split: [row(kind, n) for n in numbers for kind in FORMS] for split, numbers in parts.items()},
        scorer="exact_match",
        skill=tmp_path / "skill.md",
        out=tmp_path / "run",
        options={
            "train.strategy": "proof",
            "train.num_epochs": 1,
            "model.optimizer.prompts": "small",
            "optimizer.use_slow_update": False,
            "optimizer.use_meta_skill": False,
            "env.kind_field": "kind",
            "evaluation.repeats": 1,
        },
    )
    questions = [request.messages[1].content for request in asked.requests]
    assert len(questions) == len(FORMS)
    assert all(len(set(re.findall(r"the (\w+) of thing", question))) == 1 for question in questions)
    assert all("The answer equals an acceptable one" in question for question in questions)
    assert done.best_skill.count("- Answer in the form of the house. Example:") == len(FORMS)
    assert "no idea" not in done.best_skill
    assert done.test is not None and (done.test.before, done.test.after) == (0.0, 1.0)
