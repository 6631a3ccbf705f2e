"""`skillopt estimate`: what it says of a run, and an A/A measurement as people and programs read it."""

from __future__ import annotations

import pytest

from cli._commands import SMALL, Command

WORDS = ("estimate", "quickstart", "--noise", "--quiet", "--cfg-options", *SMALL)


def test_a_noisy_target_is_told_how_much_is_luck(skillopt: Command) -> None:
    told = skillopt(*WORDS, "--target", "world:noise=0.3", "--draws", "4", "--json").json
    data = told["noise"]
    assert (data["n"], data["draws"], told["simulated"]) == (20, 4, True)
    assert told["noise_cost"]["calls"] == {"typical": 80, "at_most": 80}
    assert 0 < data["sd"] < 0.2 and 0 < data["lucky"] < 0.5
    assert data["moved"] and data["step"] == 0.05 <= data["seen"]
    assert (data["repeats"], data["tasks"] > 100) == (None, True), "20 tasks never show 0.05"


def test_without_noise_one_draw_shows_what_these_tasks_can_show(skillopt: Command) -> None:
    ran = skillopt(*WORDS, "--target", "world:noise=0", "--gain", "0.3")
    assert "Simulated: seed on 20 val tasks, 3 draws each" in ran.out
    assert "would beat itself in 0% of the gates" in ran.out and "evaluation.repeats=1" in ran.out
    assert "the score moves in steps of 0.0500; a true gain of 0.0" in ran.out
    few = skillopt(*WORDS, "--target", "world:noise=0").out
    assert (
        "to be sure of a gain of 0.05 20 tasks are too few, however often drawn; it takes 118 val tasks"
        in few
    )
    assert "gain of 0.0000" not in few + ran.out


@pytest.mark.slow
def test_draws_are_not_paid_twice(skillopt: Command) -> None:
    first = skillopt(*WORDS, "model.target=world:noise=0.3", "--json").json["noise"]
    again = skillopt(*WORDS, "model.target=world:noise=0.3", "--json").json["noise"]
    assert first == again
    ran = skillopt(
        "eval",
        "quickstart",
        "--skill",
        "none",
        "--split",
        "val",
        "--quiet",
        "--json",
        "--cfg-options",
        *SMALL,
        "model.target=world:noise=0.3",
    )
    assert ran.json["folder"] == first["folder"]


def test_fewer_than_two_draws_are_refused_and_draws_without_noise(skillopt: Command) -> None:
    ran = skillopt(*WORDS, "--draws", "1")
    assert ran.code == 2 and "--draws" in ran.err
    ran = skillopt("estimate", "quickstart", "--gain", "0.1")
    assert ran.code == 2 and "Add --noise, which costs calls" in ran.err


def test_an_estimate_says_what_the_tasks_can_show_and_what_measuring_noise_costs(skillopt: Command) -> None:
    said = " ".join(skillopt("estimate", "quickstart", "--cfg-options", *SMALL).out.split())
    assert "Typical cost of" in said and "test tasks show a true gain of" in said
    assert "--noise measures how much of a score is luck: 3 draws of 20 val tasks, 60 calls" in said


def test_noise_is_a_part_of_estimate(skillopt: Command) -> None:
    ran = skillopt("noise", "quickstart")
    assert ran.code == 2 and "skillopt estimate --noise quickstart" in ran.err
