"""What the command line offers, and how quickly it says so."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from cli._commands import Command

COMMANDS = ["init", "try", "train", "eval", "check", "estimate", "runs", "report", "adopt", "tasks", "sleep"]
COMMANDS += ["dashboard", "doctor", "plugin", "mcp", "config", "demo"]
PARTS = ["runs list", "runs show", "runs diff", "runs explain", "runs watch", "runs prune"]
PARTS += ["config show", "config list", "config cache", "config data"]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", *COMMANDS, *PARTS])
def test_every_command_explains_itself(skillopt: Command, words: str) -> None:
    ran = skillopt(f"{words} --help")
    assert (ran.code, ran.err) == (0, "")
    assert f"Usage: skillopt {words}".rstrip() in ran.out


def test_the_overview_names_every_command(skillopt: Command) -> None:
    listed = re.findall(r"^│ ([a-z]+) ", skillopt("--help").out, re.MULTILINE)
    assert set(listed) == set(COMMANDS)


@pytest.mark.parametrize("words", ["", "train", "eval", "demo"])
def test_exit_codes_are_documented(skillopt: Command, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = " ".join(skillopt(f"{words} --help").out.split())
    assert all(
        f"{code} {word}" in said
        for code, word in ((2, "bad input"), (3, "stopped"), (4, "the budget"), (130, "interrupted"))
    )


@pytest.mark.slow
def test_the_help_of_train_is_short_and_the_whole_one_does_not_stay(
    skillopt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for _ in range(2):
        said = skillopt("train --help").out
        assert 18 <= said.count("\n│ ") <= 33 and "--effort " in said and "--batch_size " not in said
        assert "--batch_size " in skillopt("train --help-all").out


@pytest.mark.slow
@pytest.mark.parametrize("words", ["try", "eval", "estimate", "check", "runs prune", "config show"])
def test_no_help_lists_every_setting_unless_asked(
    skillopt: Command, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = skillopt(*words.split(), "--help").out
    assert said.count("\n│ ") <= 33 and "--help-all" in said and "--split_ratio " not in said
    assert "--split_ratio " in skillopt(*words.split(), "--help-all").out


ENGINE = (
    "run.assembly",
    "run.training",
    "evaluation.stage",
    "runs.database",
    "optimizer.ask",
    "train.trainer",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "further"), [(["--help"], ["skillopt.config.load"]), (["train", "--help"], [])]
)
def test_help_loads_neither_an_sdk_nor_the_engine_nor_nights(words: list[str], further: list[str]) -> None:
    heavy = ["openai", "anthropic", "aiohttp", "genai_prices", "skillopt_sleep", *further]
    heavy += [f"skillopt.{name}" for name in ENGINE]
    assert all(importlib.util.find_spec(name) for name in heavy if name.startswith("skillopt"))
    program = (
        f"import sys\nfrom skillopt.cli import main\ntry:\n    main({words})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_version_is_told(skillopt: Command) -> None:
    assert skillopt("--version").out.startswith("skillopt ")
