"""A folder for many short runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from claims.promises._runs import quick_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run may live; nothing is there yet."""
    with quick_folder() as quick:
        yield quick / "run"
