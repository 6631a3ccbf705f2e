"""README.md lists the claims: the tests of this folder, and crossed out those that a decision dropped."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
TEXT = (HERE / "README.md").read_text(encoding="utf-8")


def test_every_claim_of_the_list_has_its_test_and_every_test_is_on_the_list() -> None:
    listed: set[tuple[str, str]] = set()
    for file, lines in re.findall(r"^`(\w+/test_\w+\.py)`\n((?:- .*\n?)+)", TEXT, re.MULTILINE):
        listed |= {(file, f"test_{name}") for name in re.findall(r"^- (\w+)$", lines, re.MULTILINE)}
    found = {
        (path.relative_to(HERE).as_posix(), node.name)
        for path in HERE.glob("*/test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    }
    assert sorted(listed ^ found) == []


def test_a_dropped_claim_is_crossed_out_with_the_decision() -> None:
    dropped = re.findall(r"^- ~~.*$", TEXT, re.MULTILINE)
    assert all(re.fullmatch(r"- ~~\w+~~: \S.*", line) for line in dropped)


def test_claims_import_the_product_through_one_file() -> None:
    for path in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            outside = [name for name in modules if name.partition(".")[0].startswith("skillopt")]
            assert not outside or path.name == "_product.py", f"{path.name} imports {outside}"
