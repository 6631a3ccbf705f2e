"""All of src compiles on Python 3.10.

ruff finds the syntax of later versions (`target-version`), apart from an `await` in a comprehension inside
another: neither ruff 0.17 nor mypy, pyright, ty, vermin or parso know that Python before 3.11 refuses it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def test_no_comprehension_awaits_inside_another() -> None:
    assert not [
        f"{path.relative_to(SRC)}:{line} awaits in a comprehension inside another: write a loop"
        for path in SRC.rglob("*.py")
        if b"async def" in (text := path.read_bytes())
        for line in refused(ast.parse(text))
    ]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("[[await y for y in x] for x in xs]", True),
        ("[{y: 1 async for y in x} for x in xs]", True),
        ("list({await y for y in x} for x in xs)", True),
        ("[y for x in xs if [await z for z in x] for y in x]", True),
        ("[f([await y\n for y in x]) for x in xs]", True),
        ("[x for x in [await y for y in xs]]", False),
        ("[await x for x in xs]", False),
        ("[(await y for y in x) for x in xs]", False),
        ("[[y for y in x] for x in await xs]", False),
        ("[[y for y in await x] for x in xs]", False),
    ],
)
def test_what_python_3_10_refuses_is_found(text: str, is_refused: bool) -> None:
    function = f"async def f(xs, f):\n    return {text}"
    assert bool([*refused(ast.parse(function))]) == is_refused
    if sys.version_info < (3, 11):
        assert compiles(function) != is_refused


def compiles(text: str) -> bool:
    try:
        compile(text, "text", "exec")
    except SyntaxError:
        return False
    return True


def refused(node: ast.AST, *, is_inside: bool = False) -> Iterator[int]:
    """The lines of comprehensions inside others that Python 3.10 does not compile."""
    own = list(ast.iter_child_nodes(node))
    if isinstance(node, COMPREHENSIONS):
        first = node.generators[0]
        yield from refused(first.iter, is_inside=is_inside)  # computed outside of the comprehension
        own = [child for child in own if child is not first]
        own += [child for child in ast.iter_child_nodes(first) if child is not first.iter]
        if is_inside and not isinstance(node, ast.GeneratorExp) and (first.is_async or any(map(awaits, own))):
            yield node.lineno
        is_inside = True
    elif isinstance(node, FUNCTIONS):
        is_inside = False
    for child in own:
        yield from refused(child, is_inside=is_inside)


def awaits(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Await) or (isinstance(one, ast.comprehension) and one.is_async)
        for one in ast.walk(node)
    )
