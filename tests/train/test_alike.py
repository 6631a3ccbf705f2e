"""Lines that say nearly what another says: found by a rule of thumb, decided by trials."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import skillopt
from skillopt.messages import Request
from skillopt.skill.distinct import alike
from skillopt.testing import FunctionModel
from skillopt.train.strategies._choice import alike_groups
from skillopt.train.strategies._lanes import line_to_replace

SAME = [
    ("Write dates as YYYY-MM-DD.", "- Always write dates as YYYY-MM-DD"),
    ("Do not explain your answer.", "Never explain your answer."),
    ("Spell out the abbreviation of a street.", "Spell out abbreviations of streets."),
    ("The answer should be given in metres.", "Give the answer in metres."),
    ("Return a JSON object with the keys name and age.", "Return a JSON object with keys name and age."),
]
OTHER = [
    ("Round amounts to 2 decimals.", "Round amounts to 3 decimals."),
    ("Include the tax in the total.", "Do not include the tax in the total."),
    ("Always quote the customer.", "Never quote the customer."),
    ("Escalate to Maria if it is above the limit.", "Escalate to Tomas if it is above the limit."),
    ("Count items that are in stock.", "Only count items that are in stock."),
    ("Convert feet to metres.", "Convert metres to feet."),
    ("Put the postal code before the town.", "Put the town before the postal code."),
    ("If the customer is angry, call the manager.", "If the manager is angry, call the customer."),
    ("Formulas start with =SUM", "Formulas start with =MAX"),
    ("Answer in the form of the house. Example: USD 1", "Answer in the form of the house. Example: <3>"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_fillers_and_endings_make_no_other_line(one: str, other: str) -> None:
    assert alike(one, other)
    assert line_to_replace(other, f"# Head\n\n* {one}\nMore.\n") == (
        f"* {one}",
        f"* {other.removeprefix('- ')}",
    )


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_a_number_a_negation_a_name_an_order_and_an_example_make_another_line(one: str, other: str) -> None:
    assert not alike(one, other) and line_to_replace(other, f"- {one}\n") is None


def test_rules_that_differ_in_order_or_example_are_left_to_a_trial() -> None:
    texts = ["Use SUM for totals, e.g. =SUM(A1:A9)", "For totals use SUM. Example: =SUM(B2:B7)", "Use MAX"]
    assert alike_groups(texts) == [[0, 1]]


def rows(split: str, numbers: range) -> list[dict[str, str]]:
    return [
        {"id": f"{split}-{n}", "prompt": f"What is the price of thing {n}?", "answer": f"USD {n}"}
        for n in numbers
    ]


async def trained(tmp_path: Path, seed: str, obeys: str, reply: dict[str, Any], prompts: str) -> str:
    def target(request: Request) -> str:
        number = re.findall(r"of thing (\d+)", request.messages[-1].content)[0]
        shown = re.search(obeys, request.messages[0].content)
        return f"USD {number}" if shown else f"It is {number}."

    (tmp_path / "skill.md").write_text(seed)
    done = await skillopt.aoptimize(
        target=FunctionModel(target),
        optimizer=FunctionModel(lambda request: json.dumps(reply)),
        tasks={
            "train": rows("a", range(6)),
            "val": rows("b", range(6, 12)),
            "test": rows("c", range(12, 18)),
        },
        scorer="exact_match",
        skill=tmp_path / "skill.md",
        out=tmp_path / "run",
        options={
            "train.strategy": "proof",
            "train.num_epochs": 1,
            "model.optimizer.prompts": prompts,
            "optimizer.use_slow_update": False,
            "optimizer.use_meta_skill": False,
            "evaluation.repeats": 1,
            "evaluation.check_baseline": False,
        },
    )
    assert done.test is not None and (done.test.before, done.test.after) == (0.0, 1.0)
    return done.best_skill


async def test_one_rule_with_two_examples_that_both_work_enters_once(tmp_path: Path) -> None:
    reply = {
        "rule": "Name the currency first.",
        "request": "What is the price of thing 99?",
        "answer": "USD 99",
    }
    best = await trained(tmp_path, "# Prices\n", r"Example: .*USD \d", reply, "small")
    assert best.count("Name the currency first.") == 1


async def test_a_line_that_nearly_repeats_one_of_the_skill_takes_its_place(tmp_path: Path) -> None:
    edit = {"op": "append", "content": "- Always name the currency first.", "tasks": ["a-0", "a-1"]}
    best = await trained(
        tmp_path, "# Prices\n\n- Name the currency first.\n", "Always name", {"edits": [edit]}, "standard"
    )
    assert best == "# Prices\n\n- Always name the currency first.\n"
