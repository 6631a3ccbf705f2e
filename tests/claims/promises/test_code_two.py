"""Exit code 2 says that nothing was paid: bad input that shows later is a stop, through every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from claims._product import (
    PROVIDERS,
    ConfigError,
    Database,
    FunctionModel,
    Model,
    Provider,
    Request,
    Stopped,
    skillopt,
)
from cli._commands import SMALL, run


def refuse(request: Request) -> str:
    raise ConfigError("A key of mine has a value that I cannot use.")


def train(target: str | Model, optimizer: str | Model, folder: Path, **more: Any) -> skillopt.Result:
    options = {"train.num_epochs": 1, **dict(one.split("=") for one in SMALL)}
    return skillopt.optimize(
        benchmark="world", target=target, optimizer=optimizer, out=folder, options=options, **more
    )


def calls(folder: Path) -> int:
    return sum(entry.charged.calls for entry in Database.reading(folder / "run.db").entries())


def test_bad_input_found_before_the_first_paid_call_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="that I cannot use"):
        train(FunctionModel(refuse), "world", tmp_path)
    assert calls(tmp_path) == 0


def test_bad_input_found_after_paid_calls_is_a_stop(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="that I cannot use") as stopped:
        train("world", FunctionModel(refuse, "world"), tmp_path)
    paid = calls(tmp_path)
    assert paid >= 20 and f"after calls were paid ({paid})" in str(stopped.value)
    assert stopped.value.exit_code == 3 and isinstance(stopped.value.__cause__, ConfigError)


@pytest.mark.parametrize(("role", "code", "word"), [("target", 2, "error"), ("optimizer", 3, "stopped")])
def test_the_command_line_says_so_with_its_code(role: str, code: int, word: str, tmp_path: Path) -> None:
    names = {"target": "world", "optimizer": "world", role: "late:x"}
    models = [part for name, model in names.items() for part in (f"--{name}", model)]
    options = [part for one in SMALL for part in ("--cfg-options", one)]
    with PROVIDERS.lend("late", Provider(open=lambda spec: FunctionModel(refuse))):
        ran = run("train", "--env", "world", *models, "--out_root", str(tmp_path / "run"), *options)
    assert ran.code == code and f"{word}: A key of mine" in ran.err, ran.err
    assert (calls(tmp_path / "run") == 0) == (code == 2)
