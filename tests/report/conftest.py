"""One real run of the simulated world for all tests of this folder; for reading only."""

from __future__ import annotations

import pytest

from train._world import Trained, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("report") / "run")
