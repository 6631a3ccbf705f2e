"""Programs that no other test starts still find what they import."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path for folder in ("perf", "docs", "examples", "scripts") for path in (ROOT / folder).rglob("*.py")
)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0].startswith("skillopt"):
            yield from ((node.module or "", name.name) for name in node.names)


def called(path: Path) -> set[str]:
    calls = (
        node.func
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    return {func.id for func in calls if isinstance(func, ast.Name)}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_program_imports_names_that_are_there(path: Path) -> None:
    calls = called(path)
    for module, name in imported(path):
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
        found = getattr(importlib.import_module(module), name)
        assert name not in calls or callable(found), f"{name} of {module} is called, and is a module"
