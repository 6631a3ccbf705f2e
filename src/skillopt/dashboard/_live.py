"""What the pages about runs share: one reader for all visitors, a timer that shows only what changed, and
figures that change in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nicegui import ui

from skillopt.dashboard import _widgets as w
from skillopt.errors import SkillOptError, UsageError
from skillopt.runs.listing import Listing, RunOverview
from skillopt.runs.reader import RunReader, RunReaders, is_run

EVERY = 1.0
"""Seconds between two looks at a run."""
PATIENCE = 0.3
"""Seconds a page may wait for a log before it is sent without it."""
LONGEST = 30.0
"""Seconds a browser has to open its connection."""
UNDER_NAVIGATION = 2
"""Where trouble is said: below the title and the links of the run, above what the page shows."""
TONES: dict[str, w.Tone] = {
    "running": "info",
    "finished": "good",
    "stopped": "warn",
    "unreadable": "bad",
    "accepted": "good",
    "rejected": "plain",
    "inconclusive": "bad",
    "taken without a gate": "warn",
    "applied": "good",
    "invalid": "bad",
}
_STYLE = (Path(__file__).parent / "_views.css").read_text(encoding="utf-8")
_watched = RunReaders()
_listing = Listing()


async def look(folder: Path) -> RunReader:
    """A run as it stands now; a long log is read beside the event loop, so that nobody else waits."""
    return await asyncio.to_thread(_watched, folder)


def _read(folder: Path) -> RunReader:
    watcher = _watched(folder)
    watcher.facts()  # not while drawing: somebody else may be in the middle of the first reading
    return watcher


async def listed(folders: Callable[[], Sequence[Path]]) -> list[RunOverview]:
    """A list of runs as they stand now."""
    return await asyncio.to_thread(lambda: _listing.read(folders()))


def style() -> None:
    """Add the style sheet of these pages."""
    ui.add_css(_STYLE)


async def watch(folder: Path, show: Callable[[RunReader], Awaitable[None] | None]) -> None:
    """Show a run now and again whenever it changed. What cannot be read is said where the page stands."""
    style()
    seen = -1
    trouble = ui.element("div").classes("so-bare")
    trouble.move(target_index=UNDER_NAVIGATION)

    async def refresh() -> None:
        nonlocal seen
        try:
            if not is_run(folder):  # else the figures would go back to those of a run that never began
                raise UsageError(
                    f"There is no run in {folder} any more. What stands here is what it last was."
                )
            watcher = await look(folder)
        except SkillOptError as error:
            seen = -1
            trouble.clear()
            with trouble:
                w.trouble(str(error))
            return
        # of a run at work at least the time has changed
        if watcher.version != seen or watcher.state == "running":
            seen = watcher.version
            trouble.clear()
            shown = show(watcher)
            if shown is not None:
                await shown

    # Gathered, so that its error is not told twice: `refresh` meets and shows it.
    reading = asyncio.gather(look(folder), return_exceptions=True)
    await asyncio.wait([reading], timeout=PATIENCE)
    if not reading.done():  # a long log: the page goes out as it is, and is filled when the log is read
        await ui.context.client.connected(timeout=LONGEST)
        await reading
    await refresh()
    ui.timer(EVERY, refresh, immediate=False)


class Chip:
    """A state in words that changes in place."""

    def __init__(self, word: str = "") -> None:
        self._label = ui.label("")
        self._label.tag = "span"
        self.show(word)

    def show(self, word: str) -> None:
        """The state as it is now; its colour says nothing that the word does not."""
        if word != self._label.text or not word:
            self._label.text = word
            self._label.classes(replace=f"so-chip so-{TONES.get(word, 'plain')}")


class LiveFigures:
    """Names and values that change in place; what stays the same is not sent again."""

    def __init__(self, *names: str) -> None:
        self._values: dict[str, ui.label] = {}
        with ui.element("dl").classes("so-facts"):
            for name in names:
                with ui.element("div"):
                    ui.label(name).tag = "dt"
                    value = self._values[name] = ui.label("")
                    value.tag = "dd"

    def show(self, **values: str) -> None:
        """New values; a name is written with underscores for spaces."""
        for name, value in values.items():
            self._values[name.replace("_", " ")].text = value


class Pages:
    """A pager under a long list: which part of it is shown, with buttons and the range in words."""

    def __init__(self, size: int, change: Callable[[], None], what: str, *, ends_full: bool = False) -> None:
        """With `ends_full` it is the first part that may be short, and not the last."""
        self.size = size
        self._ends_full = ends_full
        self.at = 0
        self._change = change
        self._what = what
        self._total = 0
        with w.named(ui.element("nav"), f"Pages of {what}").classes("so-row so-pages"):
            self._back = ui.button("Earlier", icon="chevron_left", on_click=lambda: self._turn(-1)).props(
                "flat no-caps dense"
            )
            self._said = ui.label("").props('role="status"')
            self._on = ui.button("Later", icon="chevron_right", on_click=lambda: self._turn(1)).props(
                "flat no-caps dense"
            )

    def part(self, total: int) -> slice:
        """What is shown of so many."""
        self._total = total
        self.at = max(0, min(self.at, (total - 1) // self.size))
        lacking = -total % self.size if self._ends_full else 0
        first, last = max(0, self.at * self.size - lacking), min(total, (self.at + 1) * self.size - lacking)
        self._said.text = (
            f"{first + 1:,} to {last:,} of {total:,} {self._what}" if total else f"no {self._what}"
        )
        self._back.set_enabled(self.at > 0)
        self._on.set_enabled(last < total)
        return slice(first, last)

    def _turn(self, by: int) -> None:
        self.at += by
        self._change()
