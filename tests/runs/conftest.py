"""A finished run of the simulated world to read, with accepted, rejected and slow-update verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli._commands import SMALL, run
from skillopt.runs.live import Watcher
from skillopt.runs.values import Facts


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "run"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture(scope="session")
def facts(finished: Path) -> Facts:
    watcher = Watcher(finished)
    watcher.read()
    told = watcher.facts()
    assert told is not None
    return told
