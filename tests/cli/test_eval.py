"""`skillopt eval --against`: a comparison as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command

WORDS = ("eval", "quickstart", "--split", "val", "--cfg-options", *SMALL)


@pytest.mark.slow
def test_each_skill_is_compared_with_the_other_on_the_same_tasks(skillopt: Command, finished: Path) -> None:
    Path("seed.md").write_text("# Seed\n")
    ran = skillopt(
        *WORDS, "--skill", str(finished), "--skill", "seed.md", "--against", "none", "--json", "--quiet"
    )
    data = ran.json
    assert [one["skill"] for one in data["evaluations"]] == [str(finished), "seed.md", "none"]
    best, seed = data["comparisons"]
    assert (best["skill"], best["against"], best["split"], best["metric"]) == (
        str(finished),
        "none",
        "val",
        "hard",
    )
    found = {one["skill"]: one["hard"] for one in data["evaluations"]}
    assert (best["comparison"]["before"], best["comparison"]["after"]) == pytest.approx(
        (found["none"], found[str(finished)])
    )
    assert len(best["comparison"]["fixed"]) - len(best["comparison"]["broken"]) == round(
        best["comparison"]["delta"] * 20
    )
    low, high = best["comparison"]["interval"]
    assert low < best["comparison"]["delta"] < high
    assert seed["comparison"]["p"] > 0.05
    assert (
        json.loads((Path(data["folder"]) / "eval_summary.json").read_text())["comparisons"][0]["comparison"]
        == best["comparison"]
    )


def test_a_run_folder_stands_for_its_best_skill(skillopt: Command, finished: Path) -> None:
    ran = skillopt(
        *WORDS, "--skill", str(finished), "--against", str(finished / "best_skill.md"), "--json", "--quiet"
    )
    [versus] = ran.json["comparisons"]
    assert versus["comparison"]["test"] == "no task changed"


def test_the_comparison_reads_well_and_names_its_tasks(skillopt: Command, finished: Path) -> None:
    ran = skillopt(*WORDS, "--skill", str(finished), "--against", "none", "--repeats", "2", "--quiet")
    for words in (
        "against none on val (hard, 20 tasks, 2 draws each)",
        "95 % interval",
        "p = ",
        "fixed: W003",
        "broken",
    ):
        assert words in ran.out
    assert "test split" not in ran.out


def test_a_small_difference_is_called_possible_chance(skillopt: Command) -> None:
    Path("seed.md").write_text("# Seed\n")
    ran = skillopt("eval quickstart --skill seed.md --against none --quiet --cfg-options", *SMALL)
    assert "): could be chance" in ran.out or "(no task changed): no better" in ran.out
    assert "This is a look at the test split" in ran.out


def test_comparing_again_pays_nothing(skillopt: Command, provider: LoopbackProvider) -> None:
    Path("some.md").write_text("# Some\n")
    target = (
        "--env",
        "world",
        "--target_model",
        f"compatible:m@{provider.base_url}",
        "--split",
        "val",
        "--repeats",
        "2",
        "--quiet",
        "--json",
    )
    words = ("eval", *target, "--skill", "some.md", "--against", "none", "--cfg-options", *SMALL)
    first = skillopt(*words).json
    assert provider.calls == 2 * 20 * 2
    assert skillopt(*words).json == first
    assert provider.calls == 2 * 20 * 2


def test_a_skill_that_only_the_config_names_is_told_as_one_would_write_it_here(skillopt: Command) -> None:
    skillopt("init demo")
    ran = skillopt("eval demo --target world --split val --json --quiet")
    assert [one["skill"] for one in ran.json["evaluations"]] == ["demo/demo/SKILL.md"]
