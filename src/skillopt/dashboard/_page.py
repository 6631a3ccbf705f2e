"""The contract of a page: decides what a file in `pages/` must offer, and what a page is told about the
visit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from skillopt.dashboard._launch import Launches
from skillopt.dashboard._runs import Roots, RunPlace

Build = Callable[["Visit"], "Awaitable[None] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page. A path with `{run}` is about one run: it stands in that run's own navigation and is given the
    run's folder.

    `build` makes the elements of the page inside the frame's `main`; it may be a coroutine function. A
    `UsageError` it raises is shown as a sentence.
    """

    path: str
    title: str
    place: int
    """Order in the navigation, the smallest first."""
    build: Build
    icon: str = ""
    """Name of a Material icon beside the title; decoration only."""

    @property
    def is_of_run(self) -> bool:
        """Whether the page is about one run."""
        return "{run}" in self.path

    def url(self, run: str | None = None, **query: str) -> str:
        """The address of this page, of a run by its id, with a query."""
        path = self.path.replace("{run}", quote(run or "", safe=""))
        return f"{path}?{urlencode(query)}" if query else path


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the whole dashboard works with."""

    roots: Roots
    """Where runs may lie; nothing else is read as a run."""
    cwd: Path
    """The folder in which runs are started, and which relative paths are read from."""
    environ: Mapping[str, str]
    pages: Mapping[str, Page]
    """Every page by the name of its file."""
    launches: Launches
    """What was started from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One look at one page by one browser."""

    around: Surroundings
    page: Page
    query: Mapping[str, str]
    """What stands behind `?` in the address: written by anybody, to be checked like any input."""
    place: RunPlace | None = None
    """The run, on pages that are about one."""

    @property
    def run(self) -> RunPlace:
        """The run this page is about."""
        assert self.place is not None, "only a page with {run} in its path is about a run"
        return self.place

    def url(self, page: str, run: str | None = None, **query: str) -> str:
        """The address of another page, by the name of its file; of this visit's run, where none is named."""
        return self.around.pages[page].url(run or (self.place.id if self.place else None), **query)
