"""An empty folder to work in, a provider that counts, and a finished run to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._commands import SMALL, Command, run
from skillopt.testing import LoopbackProvider, world_answers


@pytest.fixture
def skillopt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    """The simulated world behind a real HTTP endpoint, which counts what reaches it."""
    with LoopbackProvider.in_thread(world_answers()) as provider:
        yield provider


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the simulated world with accepted, rejected and slow-update verdicts; for reading only."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    return folder
