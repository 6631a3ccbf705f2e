"""Rows of the tables: what is given to `load`, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillopt.config.load import Resolved
from skillopt.config.roles import resolve_role

Write = Callable[[str, str], Path]


def row(
    name: str, *expected: Any, yaml: str = "", files: Mapping[str, str] | None = None, **given: Any
) -> Any:
    """One case: `yaml` is the text of `c.yaml`, which is loaded; `given` are further arguments of `run`."""
    texts = {**({"c.yaml": yaml} if yaml else {}), **(files or {})}
    config = {"config": "c.yaml"} if yaml else {}
    return pytest.param(texts, {**config, **given}, *expected, id=name)


def write_all(write: Write, files: Mapping[str, str]) -> None:
    """Write the files of a row."""
    for name, text in files.items():
        write(name, text)


def values(resolved: Resolved, keys: Mapping[str, Any], cwd: Path) -> dict[str, Any]:
    """What came of the keys: a value of the tree by its key, a source (`source KEY`), or a part of what a role is
    built from (`target:api_key`). The working directory is `CWD`.
    """
    found = {key: _value(resolved, key) for key in keys}
    return {key: _plain(value, cwd) for key, value in found.items()}


def _value(resolved: Resolved, key: str) -> Any:
    if key.startswith("source "):
        return str(resolved.provenance[key.removeprefix("source ")])
    role, colon, part = key.partition(":")
    if colon:
        return getattr(resolve_role(resolved.config, role), part)  # type: ignore[arg-type]
    value: Any = resolved.config
    own = key.removeprefix("env.")
    if own != key and not hasattr(value.env, own):
        return getattr(value.env.settings, own)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part)
    return value


def _plain(value: Any, cwd: Path) -> Any:
    return str(value).replace(str(cwd), "CWD") if isinstance(value, (Path, str)) else value
