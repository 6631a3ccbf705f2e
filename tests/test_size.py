"""The size of the program: a move that makes it smaller lowers a number here, and none is raised without a
decision record.
"""

from __future__ import annotations

import re
from pathlib import Path

from cli._commands import run

SRC = Path(__file__).parents[1] / "src"
LINES = 67951
FILES = 383
TOP_NAMES = 30
OPTIONS_OF_TRAIN = 60


def test_the_program_is_no_larger_than_it_was() -> None:
    files = list(SRC.rglob("*.py"))
    assert sum(len(file.read_bytes().splitlines()) for file in files) <= LINES
    assert len(files) <= FILES


def test_no_further_room_stands_at_the_top() -> None:
    top = [path for path in (SRC / "skillopt").iterdir() if path.suffix == ".py" or list(path.glob("*.py"))]
    assert len({path.stem for path in top} - {"__init__", "__main__"}) <= TOP_NAMES


def test_train_has_no_further_option() -> None:
    assert len(re.findall(r"^\W*--\w", run("train", "--help-all").out, re.MULTILINE)) <= OPTIONS_OF_TRAIN
