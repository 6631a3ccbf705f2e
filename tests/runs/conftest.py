"""Finished runs of the simulated world, for reading only."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli._commands import SMALL, run
from skillopt.runs.reader import RunReader
from skillopt.runs.view import RunView
from train._world import Trained, train


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "run"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture(scope="session")
def facts(finished: Path) -> RunView:
    watcher = RunReader(finished)
    watcher.read()
    told = watcher.view()
    assert told is not None
    return told


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("report") / "run")
