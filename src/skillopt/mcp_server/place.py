"""Decides in which folder a call works, and which paths it may write to: the caller's project, inside the roots the client gave."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from skillopt.errors import UsageError

PACKAGE = Path(os.path.realpath(__file__)).parents[1]
WRITTEN_OPTIONS = ("out_root",)
_WRITTEN_KEYS = ("out_root", "env.out_root", "cache.path")
"""Settings that name a place to write to, as they stand in cfg_options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call works: a project, and the folders the client works in (none: it did not say)."""

    project: Path
    roots: tuple[Path, ...] = ()

    def confine(self, given: Mapping[str, Any]) -> None:
        """Raise where a call that writes would do so outside the client's roots."""
        if not self.roots:
            return
        options = [str(item) for item in given.get("cfg_options", [])]
        pairs = [(key.strip(), value.strip()) for key, _, value in (option.partition("=") for option in options)]
        named = [str(given[name]) for name in WRITTEN_OPTIONS if name in given]
        for path in (str(self.project), *named, *(value for key, value in pairs if key in _WRITTEN_KEYS)):
            real = Path(os.path.realpath(self.project / Path(path).expanduser()))
            if not any(real.is_relative_to(root) for root in self.roots):
                raise UsageError(
                    f"{path} lies outside the folders the client works in ({', '.join(map(str, self.roots))}); nothing is written there."
                )


def find_place(named: str | None, roots: Sequence[Path], default: Path) -> Place:
    """The named project, else the client's first root, else where the server was started; raises where that is no project."""
    first = roots[0] if roots else default
    project = Path(os.path.realpath(first if named is None else first / Path(named).expanduser()))
    if not project.is_dir():
        raise UsageError(f"There is no folder {project}. Name the project's folder: the argument `project`.")
    if project == Path(project.anchor) or project.is_relative_to(PACKAGE):
        raise UsageError(
            f"{project} is no project. Name its folder by the argument `project`, or start the server there: skillopt mcp --project DIR."
        )
    return Place(project=project, roots=tuple(roots))


def paths_of(uris: Iterable[str]) -> list[Path]:
    """The folders of this machine among the roots a client gave."""
    found = []
    for uri in uris:
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            continue
        text = unquote(parts.path)
        if sys.platform == "win32":
            text = text.lstrip("/")
        path = Path(os.path.realpath(text))
        if path.is_dir():
            found.append(path)
    return found
