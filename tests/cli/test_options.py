"""How arguments become configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli._commands import Command
from skillopt.cli._flags import spelled_out

SET = ("--cfg_options",)


def shown(skillopt: Command, *arguments: str) -> dict[str, Any]:
    ran = skillopt("config", "show", *arguments, "--json")
    assert ran.code == 0, ran.err
    data: dict[str, Any] = json.loads(ran.out)
    return data


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--cfg-options", "a=1", "b=2"], [*SET, "a=1", *SET, "b=2"]),
        (["--cfg-options=a=1", "-o", "b=2", "c=3"], [*SET, "a=1", *SET, "b=2", *SET, "c=3"]),
        (["--cfg_options", "a=1", "b=2", "--json"], [*SET, "a=1", *SET, "b=2", "--json"]),
        (["--cfg-options", "a=1", "config.yaml"], [*SET, "a=1", "config.yaml"]),
        (["--cfg-options"], ["--cfg-options"]),
        (["--skill", "a=b.md"], ["--skill", "a=b.md"]),
        (
            ["--exec-timeout=3", "--patience", "--json"],
            ["--setting=exec_timeout=3", "--setting=patience=--json"],
        ),
        (["--", "--patience", "3"], ["--", "--patience", "3"]),
    ],
)
def test_values_after_one_cfg_options_all_belong_to_it_and_other_settings_are_options(
    given: list[str], read: list[str]
) -> None:
    assert spelled_out(given, {"--cfg_options": True, "-o": True, "--json": False, "--skill": True}) == read


def test_underscores_and_hyphens_are_one_flag(skillopt: Command) -> None:
    for spelling in (("--batch_size", "7"), ("--batch-size", "7"), ("--batch-size=7",)):
        assert shown(skillopt, "quickstart", *spelling)["config"]["train"]["batch_size"] == 7


def test_flags_beat_options_and_say_where_they_come_from(skillopt: Command) -> None:
    data = shown(
        skillopt,
        "--config",
        "quickstart",
        "--cfg-options",
        "train.batch_size=5",
        "train.seed=3",
        "--batch_size",
        "6",
    )
    assert (data["config"]["train"]["batch_size"], data["config"]["train"]["seed"]) == (6, 3)
    assert data["sources"]["train.batch_size"] == "flag --batch_size"
    assert data["sources"]["train.num_epochs"].startswith("config configs/quickstart.yaml:")


def test_a_benchmarks_own_keys_are_flags_too(skillopt: Command) -> None:
    assert shown(skillopt, "quickstart", "--val_cases", "9")["config"]["env"]["val_cases"] == 9


def test_the_budget_reads_as_people_write_it(skillopt: Command) -> None:
    budget = shown(skillopt, "quickstart", "--budget", "$2, 500 calls")["config"]["budget"]
    assert (budget["usd"], budget["tokens"], budget["calls"]) == (2.0, None, 500)


def test_config_show_never_shows_a_key(skillopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-very-secret-key")
    for extra in ((), ("--json",)):
        ran = skillopt("config", "show", "searchqa", *extra)
        assert ran.code == 0
        assert "very-secret" not in ran.out + ran.err


def test_two_different_configs_are_refused(skillopt: Command) -> None:
    ran = skillopt("train", "quickstart", "--config", "searchqa")
    assert ran.code == 2
    assert "Two configs" in ran.err


def test_a_dead_key_is_said_once_on_stderr(skillopt: Command) -> None:
    ran = skillopt("config", "show", "quickstart", "--cfg-options", "train.steps_per_epoch=3", "--json")
    assert ran.err.count("train.steps_per_epoch") == 1
    assert json.loads(ran.out)


@pytest.mark.slow
def test_a_run_is_estimated_without_the_key_that_it_will_need(skillopt: Command) -> None:
    given = (
        "quickstart",
        "--target_model",
        "openai:gpt-5.4-mini",
        "--optimizer_model",
        "openai:gpt-5.5",
        "--json",
    )
    ran = skillopt("estimate", *given)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["total"]["usd"]["typical"] > 0
    assert "needs an API key" in skillopt("train", *given).err
