"""`skillopt eval`: skills measured alone and against each other, as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command, Ran


def evaluate(skillopt: Command, line: str, *more: str) -> Ran:
    """An evaluation on the small simulated world."""
    return skillopt(f"eval quickstart {line}", *more, "--cfg-options", *SMALL)


def test_each_skill_is_measured_on_each_split_and_a_look_at_test_is_said(
    skillopt: Command, finished: Path
) -> None:
    best = str(finished / "best_skill.md")
    ran = evaluate(skillopt, "--json --skill none --skill", best)
    assert "look at the test split" in ran.err and "look at the test split" in ran.json["note"]
    found = {(one["skill"], one["split"]): one for one in ran.json["evaluations"]}
    assert set(found) == {(skill, split) for skill in (best, "none") for split in ("train", "val", "test")}
    assert found[best, "test"]["hard"] > found["none", "test"]["hard"]
    assert (found["none", "train"]["n"], found["none", "train"]["invalid"]) == (24, 0)
    said = evaluate(skillopt, "--skill none").out
    for words in ("Simulated", "none", "hard", "soft", "invalid", "This is a look at the test split"):
        assert words in said


def test_its_folder_is_named_after_what_it_measures(skillopt: Command) -> None:
    lines = ("", "", "--world_seed 3")
    first, again, other = (
        evaluate(skillopt, f"--skill none --split val --json {more}").json for more in lines
    )
    assert first["folder"] == again["folder"] != other["folder"]
    assert Path(first["folder"]).name.startswith("eval_world_") and "note" not in first


@pytest.mark.parametrize(
    ("given", "meant"), [("valid_seen", "val"), ("valid_unseen", "test"), ("train", "train")]
)
def test_the_public_names_of_splits_are_understood(skillopt: Command, given: str, meant: str) -> None:
    ran = evaluate(skillopt, f"--skill none --split {given} --json --quiet")
    assert [one["split"] for one in ran.json["evaluations"]] == [meant]


def test_without_a_skill_that_of_the_config_is_measured_and_named_as_one_would_write_it_here(
    skillopt: Command,
) -> None:
    Path("mine.md").write_text("# Mine\n", encoding="utf-8")
    Path("train.yaml").write_text("_base_: quickstart\nenv:\n  skill_init: mine.md\n", encoding="utf-8")
    (found,) = skillopt("eval train.yaml --split val --json --quiet --cfg-options", *SMALL).json[
        "evaluations"
    ]
    assert found["skill"] == "mine.md"
    skillopt("init demo")
    ran = skillopt("eval demo --target world --split val --json --quiet")
    assert [one["skill"] for one in ran.json["evaluations"]] == ["demo/demo/SKILL.md"]


@pytest.mark.slow
def test_each_skill_is_compared_with_the_other_on_the_same_tasks(skillopt: Command, finished: Path) -> None:
    Path("seed.md").write_text("# Seed\n")
    line = "--split val --against none --json --quiet --skill seed.md --skill"
    data, best_skill = evaluate(skillopt, line, str(finished)).json, str(finished)
    assert [one["skill"] for one in data["evaluations"]] == ["seed.md", best_skill, "none"]
    seed, best = data["comparisons"]
    about = (best["skill"], best["against"], best["split"], best["metric"])
    assert about == (best_skill, "none", "val", "hard")
    found = {one["skill"]: one["hard"] for one in data["evaluations"]}
    compared = best["comparison"]
    assert [compared["before"], compared["after"]] == pytest.approx([found["none"], found[best_skill]])
    assert len(compared["fixed"]) - len(compared["broken"]) == round(compared["delta"] * 20)
    low, high = compared["interval"]
    assert low < compared["delta"] < high and seed["comparison"]["p"] > 0.05
    summary = json.loads((Path(data["folder"]) / "eval_summary.json").read_text())
    assert summary["comparisons"][1]["comparison"] == compared


def test_a_comparison_reads_well_and_a_run_stands_for_its_best_skill(
    skillopt: Command, finished: Path
) -> None:
    said = evaluate(skillopt, "--split val --against none --repeats 2 --quiet --skill", str(finished)).out
    head = "against none on val (hard, 20 tasks, 2 draws each)"
    for words in (head, "95 % interval", "p = ", "fixed: W003", "broken"):
        assert words in said
    assert "test split" not in said
    skills = ("--skill", str(finished), "--against", str(finished / "best_skill.md"))
    [versus] = evaluate(skillopt, "--split val --json --quiet", *skills).json["comparisons"]
    assert versus["comparison"]["test"] == "no task changed"


def test_a_small_difference_is_called_possible_chance(skillopt: Command) -> None:
    Path("seed.md").write_text("# Seed\n")
    ran = evaluate(skillopt, "--skill seed.md --against none --quiet")
    assert "): could be chance" in ran.out or "(no task changed): no better" in ran.out
    assert "This is a look at the test split" in ran.out


def test_no_optimizer_is_needed_and_comparing_again_pays_nothing(
    skillopt: Command, provider: LoopbackProvider
) -> None:
    Path("some.md").write_text("# Some\n")
    target = ("--target_model", f"compatible:m@{provider.base_url}", "--cfg-options", *SMALL)
    line = "eval --env world --skill some.md --against none --split val --repeats 2 --quiet --json"
    first = skillopt(line, *target)
    assert (first.code, first.err, provider.calls) == (0, "", 2 * 20 * 2)
    assert skillopt(line, *target).json == first.json
    assert provider.calls == 2 * 20 * 2
