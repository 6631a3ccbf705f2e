"""`--effort` is a word for several settings, and each of them said by itself counts more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli._commands import Command
from skillopt.cli._flags import Given
from skillopt.cli.train import PRESETS, with_effort
from skillopt.errors import UnknownName

DOCS = Path(__file__).parents[2] / "docs" / "your-own-task.md"


def given(*options: str, **flags: str) -> Given:
    return Given(config=None, flags={"env": "world", "target_model": "world", **flags}, options=options)


def test_every_preset_loads_and_what_is_said_by_itself_counts_more() -> None:
    for effort in PRESETS:
        assert with_effort(given(), effort).load().config
    quick = with_effort(given("evaluation.repeats=4", num_epochs="2"), "quick").load().config
    assert (quick.train.num_epochs, quick.evaluation.repeats, quick.train.folds) == (2, 4, 1)
    thorough = with_effort(given(), "thorough").load().config
    assert thorough.optimizer.prune and thorough.gate.policy == "confirm"
    assert with_effort(given(), None) == given() and not with_effort(given(), "standard").options


def test_a_mistyped_effort_names_the_near_miss() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'quick'"):
        with_effort(given(), "quik")


@pytest.mark.slow
def test_an_estimate_knows_the_efforts_and_names_the_quick_one_where_tasks_are_few(
    skillopt: Command, tmp_path: Path
) -> None:
    skillopt("init", "demo")
    tasks = tmp_path / "demo" / "tasks.jsonl"
    tasks.write_text("".join(tasks.read_text().splitlines(keepends=True)[:20]))
    whole = skillopt("estimate", "demo", "--target", "world")
    assert whole.code == 0 and "--effort quick takes one split" in " ".join(whole.out.split())
    quick = skillopt("estimate", "demo", "--target", "world", "--effort", "quick")
    assert quick.code == 0 and "--effort" not in quick.out
    assert "Typical cost of 1 step, simulated" in quick.out


def test_the_page_names_every_setting_and_no_other() -> None:
    said = set(re.findall(r"^\| `([a-z_.]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    assert said == {key for preset in PRESETS.values() for key in preset}
