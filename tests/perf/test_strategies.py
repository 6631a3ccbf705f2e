"""The program that puts search strategies side by side: its worlds know the truth, and every arm runs in them."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt.messages import Message, Request

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

from _strategies import ARMS, run
from _worlds import KINDS, Line, World
from _worlds_models import Simulated

WORLD = World(KINDS["plain"], 0)
ALL = frozenset(Line("right", rule) for rule in WORLD.home)


def test_all_rules_solve_every_case_in_whatever_wording():
    for at in range(4):
        skill = "\n".join(f"* {WORLD.wordings(line)[at].upper().rstrip('.')}" for line in sorted(ALL))
        assert WORLD.reading(skill) == ALL
    assert WORLD.true_score(ALL) == 1.0
    assert WORLD.true_score(frozenset()) < 0.5


def test_a_line_is_harmful_by_what_it_costs_not_by_what_it_says():
    assert WORLD.harmful(ALL) == 0
    assert WORLD.harmful(ALL | {Line("harmful", 3)}) == 1
    assert WORLD.harmful(ALL | {Line("broad", 3), Line("harmful", 3)}) == 2
    # A rule that is stated too broadly and nowhere else may be worth more than it breaks.
    alone = ALL - {Line("right", 0)} | {Line("broad", 0)}
    without = WORLD.true_score(ALL - {Line("right", 0)})
    assert WORLD.harmful(alone) == (WORLD.true_score(alone) <= without - 0.005)


def test_rules_that_disturb_each_other_cannot_all_be_kept():
    world = World(KINDS["rules that disturb"], 0)
    assert world.true_score(ALL) < 0.8
    assert world.harmful(ALL) > 0


def _asked(stage: str, text: str, world: World = WORLD, *, place: str = "0") -> dict[str, object]:
    request = Request(
        messages=(Message(role="user", content=text),),
        max_tokens=100,
        role="optimizer",
        stage=stage,
        place=place,
    )
    return json.loads(asyncio.run(Simulated(world, "optimizer").complete(request)).text)


def test_the_simulated_optimizer_knows_only_the_failures_that_it_is_shown():
    harmless = World(replace(KINDS["plain"], harm=0.0), 0)
    assert _asked("analyst_proof", "<skill>\n</skill>", harmless) == {"edits": []}
    (case,) = [f"C{id:06d}" for id in range(50) if len(harmless.case(f"C{id:06d}").needs) == 2][:1]
    edits = _asked("analyst_proof", f'<skill>\n</skill><rollout task="{case}">', harmless)["edits"]
    assert len(edits) == 2
    stated = "\n".join(harmless.wordings(Line("right", rule))[0] for rule in harmless.case(case).needs)
    asked = f'<skill>\n{stated}\n</skill><rollout task="{case}">'
    meanings = {
        harmless.meaning(edit["content"]) for edit in _asked("analyst_proof", asked, harmless)["edits"]
    }
    assert meanings <= {None}, "nothing is missing any more"


def test_joining_mostly_finds_wordings_of_one_rule_and_leaves_others_apart():
    edits = [{"content": text} for rule in (3, 4) for text in WORLD.wordings(Line("right", rule))]
    asked = f"```json\n{json.dumps(edits)}\n```"
    groups = [group for at in range(50) for group in _asked("joining", asked, place=f"{at}")["same"]]
    mixed = sum(len({number // 4 for number in group}) > 1 for group in groups)
    assert len(groups) > 80
    assert 0 < mixed < len(groups) / 4


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_ends_within_its_budget_and_repeats_to_the_last_figure(arm):
    rows = [replace(run("val of 20", arm, 1, budget=250_000), cpu=0.0) for _ in range(2)]
    assert rows[0] == rows[1]
    if arm.endswith("budget"):
        assert rows[0].tokens <= 250_000
    else:
        assert rows[0].score > rows[0].seed_score
