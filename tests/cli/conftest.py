"""An empty folder to work in, a provider that counts, a finished run to look at, and a person
with sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import SMALL, Command, run
from night._nights import Person


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


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody with sessions of the last days, in a home of their own; the working directory is their
    project.
    """
    made = Person(tmp_path / "home", now=datetime.now(timezone.utc)).write()
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the simulated world with accepted, rejected and slow-update verdicts; for reading
    only.
    """
    folder = tmp_path_factory.mktemp("finished") / "run"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    return folder
