"""Where a call works: a project, and the folders that no path of an argument leads out of."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skillopt.errors import UsageError

PACKAGE = Path(os.path.realpath(__file__)).parents[1]


class Denied(UsageError):
    """A call asks for what is not a model's to decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlace:
    """A project and the folders that a call stays inside of."""

    project: Path
    borders: tuple[Path, ...]

    def confine(self, path: str) -> None:
        """Raise where a path, as it stands in an argument, leads out of the borders; links are followed."""
        real = _real(self.project, path)
        if not any(real.is_relative_to(border) for border in self.borders):
            where = (
                ", ".join(map(str, self.borders))
                or "none: neither --project nor a root of the client names one"
            )
            raise Denied(
                f"{path[:200]} lies outside the folders this server works in ({where}). Only the person can"
                " widen them: skillopt mcp --project DIR."
            )


def find_place(named: str | None, roots: Sequence[Path], default: Path) -> ProjectPlace:
    """The named project, else the client's first root, else where the server was started; raises where that
    is no project.

    A named one lies inside the roots, or where there are none, inside the server's own folder.
    """
    folders = [Path(os.path.realpath(folder)) for folder in roots or (default,)]
    # A client may well call its whole machine a root; a server that is merely started there was not told
    # where to work.
    borders = tuple(folder for folder in folders if roots or not _is_no_project(folder))
    project = folders[0] if named is None else _real(folders[0], named)
    if _is_no_project(project):
        raise UsageError(
            f"{project} is no project. Start the server in one, or name it: skillopt mcp --project DIR."
        )
    place = ProjectPlace(project=project, borders=borders)
    place.confine(str(project))
    if not os.path.isdir(project):  # noqa: PTH112 - false, where Path.is_dir raises, for a name too long to be one
        raise UsageError(f"There is no folder {project}. Name the project's folder: the argument `project`.")
    return place


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
