"""The contract of a page: what it must offer, and what it knows of the visit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, urlencode

from multidict import MultiDict, MultiMapping

from skillopt.errors import SkillOptError, UsageError
from skillopt.runs.reader import RunReader, RunReaders, is_run
from skillopt.runs.tasks import compare_task
from skillopt.runs.view import RunView
from skillopt_webui._launch import Launches
from skillopt_webui._runs import Roots, RunPlace
from skillopt_webui.render.markup import Markup, tag, trouble
from skillopt_webui.render.task import task_card

PATIENCE = 0.1
"""Seconds a page that is opened waits for a long log before it is sent without it."""
Parts: TypeAlias = Mapping[str, Markup]
"""What a page shows, by names that stay: a part that changed is replaced in the browser, the others stay."""


class StillReading(Exception):
    """A long log is being read; the page is filled when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReply:
    """What a press of a button led to."""

    note: str = ""
    go: str = ""
    """Where the browser goes now; empty: it stays."""
    parts: Parts = field(default_factory=dict)


Build: TypeAlias = Callable[["Visit"], Awaitable[Parts]]
Act: TypeAlias = Callable[["Visit", MultiMapping[str]], Awaitable[ActionReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page. A path with `{run}` is about one run: it stands in that run's own navigation and is given the
    run's folder. A `UsageError` that `build` or `act` raises is shown as a sentence.
    """

    path: str
    title: str
    place: int
    """Order in the navigation, the smallest first; below zero it stands in none."""
    build: Build
    act: Act | None = None
    """What a form of the page does."""
    files: Mapping[str, Callable[[Visit], str]] = field(default_factory=dict)
    """Files to keep that stand below the page, by name."""

    @property
    def is_of_run(self) -> bool:
        """Whether the page is about one run."""
        return "{run}" in self.path

    def url(self, run: str | None = None, /, **query: str) -> str:
        """The address of this page, of a run by its id, with a query."""
        path = self.path.replace("{run}", quote(run or "", safe=""))
        return f"{path}?{urlencode(query)}" if query else path


@dataclass(slots=True, kw_only=True)
class AppState:
    """What the whole dashboard works with."""

    roots: Roots
    """Where runs may lie; nothing else is read as a run."""
    cwd: Path
    """The folder in which runs are started, and which relative paths are read from."""
    environ: Mapping[str, str]
    pages: Mapping[str, Page]
    """Every page by its name."""
    launches: Launches
    """What was started from here."""
    is_open: bool = False
    """Whether every account of this machine is let in."""
    readers: RunReaders = field(default_factory=lambda: RunReaders(every=0.2))
    drawn: dict[Path, tuple[tuple[int, str], Parts]] = field(default_factory=dict)
    """What was drawn last of each run, and at which state of it, for all who look."""
    launch_form: Markup | None = None
    """The empty form of Launch, which takes the loader to make; empty until somebody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One look at one page by one browser."""

    app: AppState
    page: Page
    query: MultiMapping[str] = field(default_factory=MultiDict)
    """What stands behind `?` in the address: written by anybody, to be checked like any input."""
    place: RunPlace | None = None
    """The run, on pages that are about one."""
    is_opening: bool = False
    """Whether the page is empty until it is answered: then a long log must not hold it up."""

    @property
    def run(self) -> RunPlace:
        """The run this page is about."""
        assert self.place is not None, "only a page with {run} in its path is about a run"
        return self.place

    def url(self, page: str, run: str | None = None, **query: str) -> str:
        """The address of another page, by its name; of this visit's run, where none is named. A
        page that is not about one run gets the run in its query.
        """
        found = self.app.pages[page]
        if run is not None and not found.is_of_run:
            query["run"] = run
        return found.url(run or (self.place.id if self.place else None), **query)

    def here(self, **changed: str | None) -> str:
        """The address of this page with parts of its query changed; None takes one out."""
        query = {key: value for key, value in {**self.query, **changed}.items() if value}
        return self.page.url(self.place.id if self.place else None, **query)

    def pager(
        self, total: int, size: int, what: str, *, key: str = "page", last: bool = False
    ) -> tuple[slice, Markup]:
        """The part of a long list that is shown, and the links to others. With `last` the end comes first."""
        pages = max(1, -(-total // size))
        asked, at = self.query.get(key, ""), pages if last else 1
        if asked.isdecimal() and asked != "0" and len(asked) < 9:
            at = min(int(asked), pages)
        first, end = (at - 1) * size, min(total, at * size)
        label = f"{first + 1:,} to {end:,} of {total:,} {what}" if total else f"no {what}"
        links = [
            tag("a", name, href=self.here(**{key: str(to)}), data_swap=True)
            for name, to in (("Previous", at - 1), ("Next", at + 1))
            if 1 <= to <= pages
        ]
        shown = tag("span", label, role="status", cls="soft")
        is_whole = 0 < total <= size
        nav = tag("p", shown) if is_whole else tag("nav", shown, *links, aria_label=f"Pages of {what}")
        return slice(first, end), nav

    def stop_or_resume(self, verb: str, folder: Path) -> ActionReply:
        """Do what the buttons of a run say."""
        launches = self.app.launches
        if verb == "stop":
            return ActionReply(note=f"Asked process {launches.stop(folder)} to stop.")
        return ActionReply(note=f"Started as process {launches.resume(folder).pid}.")

    async def read(self, folder: Path | None = None) -> RunReader:
        """A run as it stands now, this visit's own where none is named. A long log is read beside the event
        loop; raises `StillReading` where that takes long and the page is being opened.
        """
        place = folder or self.run.folder
        if not is_run(place):
            raise UsageError(f"There is no run in {place} any more.")
        reading = asyncio.ensure_future(asyncio.to_thread(_read, self.app.readers, place))
        done, _ = await asyncio.wait([reading], timeout=PATIENCE if self.is_opening else None)
        if not done:
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise StillReading
        return reading.result()

    async def task(self, view: RunView) -> Markup:
        """The task that the address names, with the version that it names; empty where it names none."""
        task, version = self.query.get("task"), self.query.get("version")
        if not task or not version:
            return Markup()
        try:
            found = await asyncio.to_thread(compare_task, view, task, version)
        except SkillOptError as error:
            return trouble(str(error))
        return task_card(found)


def _read(readers: RunReaders, folder: Path) -> RunReader:
    reader = readers(folder)
    reader.view()  # not while drawing: somebody else may be in the middle of the first reading
    return reader
