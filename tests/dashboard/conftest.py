"""One Chromium for the tests of a file, and the folder in which their screenshots are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard._browser import Server, chromium, serving
from train._world import Trained, train

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the whole session: while it lives it holds the thread's event loop, which the asynchronous
    tests of other files need.
    """
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept: the folder SKILLOPT_TEST_ARTIFACTS names, else among pytest's own."""
    named = os.environ.get("SKILLOPT_TEST_ARTIFACTS")
    folder = Path(named) / "dashboard" if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of the simulated world, for reading only."""
    return train(tmp_path_factory.mktemp("report") / "run")


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A dashboard of this machine's own that has nothing to show, for tests that change nothing."""
    with serving(tmp_path_factory.mktemp("dashboard-local")) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser is slow, and so is `shown`, a whole run."""
    for item in items:
        if {"browser", "shown"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
