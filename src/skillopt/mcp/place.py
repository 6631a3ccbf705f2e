"""Where a call works: in a project, which no path of an argument leads out of."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skillopt.errors import UsageError

PACKAGE = Path(os.path.realpath(__file__)).parents[1]
_WIDER = "Only the person can widen that: skillopt mcp --project DIR."


class Denied(UsageError):
    """A call asks for what is not a model's to decide."""


def find_project(named: str | None, roots: Sequence[Path], default: Path) -> Path:
    """The named project, else the client's first root, else where the server was started.

    A named one lies inside the roots, or where there are none, inside the server's own folder. Raises where
    it does not, or is no project: a server that is merely started in `/` was not told where to work.
    """
    folders = [Path(os.path.realpath(folder)) for folder in roots or (default,)]
    project = folders[0] if named is None else _real(folders[0], named)
    if _is_no_project(project) or (not roots and _is_no_project(folders[0])):
        raise UsageError(
            f"{project if _is_no_project(project) else folders[0]} is no project. Start the server in one, or"
            " name it: skillopt mcp --project DIR."
        )
    if not any(project.is_relative_to(folder) for folder in folders):
        where = ", ".join(map(str, folders))
        raise Denied(f"{project} lies outside the folders this server works in ({where}). {_WIDER}")
    if not os.path.isdir(project):  # noqa: PTH112 - false, where Path.is_dir raises, for a name too long to be one
        raise UsageError(f"There is no folder {project}. Name the project's folder: the argument `project`.")
    return project


def confine(path: str, project: Path) -> None:
    """Raise where a path, as it stands in an argument, leads out of the project; links are followed."""
    if not _real(project, path).is_relative_to(project):
        raise Denied(f"{path[:200]} lies outside the project {project}. {_WIDER}")


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


def _is_no_project(folder: Path) -> bool:
    return folder == Path(folder.anchor) or folder.is_relative_to(PACKAGE)


def _real(folder: Path, path: str) -> Path:
    expanded = os.path.expanduser(path)  # noqa: PTH111 - leaves a user who does not exist as written, where Path.expanduser raises
    try:
        return Path(os.path.realpath(folder / expanded))
    except ValueError as error:  # a NUL character
        raise UsageError(f"{path[:200]!r} is no path: {error}.") from error
