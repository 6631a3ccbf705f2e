"""The list of claims in README.md names tests that exist, and all tests of this folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (HERE / "README.md").read_text(encoding="utf-8"))


@cache
def names_in(path: Path) -> frozenset[str]:
    """The test functions of a file."""
    found = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    return frozenset(
        node.name
        for node in found
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    )


def test_every_test_on_the_list_exists():
    assert len(NAMED) > 100
    assert [f"{file}::{name}" for file, name in NAMED if name not in names_in(ROOT / file)] == []


def test_every_test_of_this_folder_is_on_the_list():
    own = {
        (f"tests/claims/protocol/{path.name}", name)
        for path in HERE.glob("test_*.py")
        if path != Path(__file__).resolve()
        for name in names_in(path)
    }
    assert sorted(own - set(NAMED)) == []
