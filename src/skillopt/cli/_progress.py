"""Decides what a person sees while a run works: a live view on a terminal, an occasional plain line
elsewhere.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillopt.events import Checkpoint, Event, Notice
from skillopt.runs.lines import line_of
from skillopt.runs.status import RunStatus
from skillopt.runs.words import duration, money, spent

QUIET_SECONDS = 30.0
"""A plain line at least this often while something arrives."""
_COLOURS = {"good": "green", "warn": "yellow", "bad": "red", "plain": ""}
_STRIP = {"done": ("✓", "green"), "now": ("▶", "bold cyan"), "ahead": ("·", "dim")}
_SHORT = {"slow update": "slow", "sealed test": "test"}
"""So that the strip fits a terminal of 80 columns."""


class View(Protocol):
    """Shows a run: an event sink that also takes in what was decided before, and sentences from the command
    itself.
    """

    def __call__(self, event: Event) -> None: ...

    def start(
        self,
        history: Iterable[Event] | None = None,
        in_flight: Callable[[], int] | None = None,
        slowed: Callable[[], str] | None = None,
    ) -> None:
        """Begin to show; `history` is what earlier sessions decided, where the status does not know it;
        `in_flight` counts calls, `slowed` tells what holds them back.
        """
        ...

    def say(self, text: str) -> None:
        """Show a sentence above the progress."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class Silent:
    """Shows warnings and nothing else."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            self.say(f"warning: {event.text}")

    def start(
        self,
        history: Iterable[Event] | None = None,
        in_flight: Callable[[], int] | None = None,
        slowed: Callable[[], str] | None = None,
    ) -> None:
        """Nothing is shown."""

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        """Nothing is open."""


class _StatusView(ABC):
    """A view of a status. Whoever keeps that status up to date calls `tell`; others call the view itself."""

    def __init__(self, status: RunStatus, console: Console) -> None:
        self._status = status
        self._console = console

    def start(
        self,
        history: Iterable[Event] | None = None,
        in_flight: Callable[[], int] | None = None,
        slowed: Callable[[], str] | None = None,
    ) -> None:
        self._status.in_flight = in_flight or self._status.in_flight
        self._status.slowed = slowed or self._status.slowed
        if history is not None:
            self._status.replay(history)
            if self._status.fold.started is not None:
                self.say(self._status.where_it_stands())

    def __call__(self, event: Event) -> None:
        self._status(event)
        self.tell(event)

    @abstractmethod
    def tell(self, event: Event) -> None:
        """Show what the status has just taken in."""

    @abstractmethod
    def say(self, text: str) -> None: ...


class PlainLines(_StatusView):
    """One line per decision, and one now and then in between."""

    def __init__(
        self, status: RunStatus, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(status, console)
        self._clock = clock
        self._spoke = clock()

    def tell(self, event: Event) -> None:
        news = told(event, self._status)
        if news is not None:
            self.say(f"{news.plain}  [{self._tail()}]" if isinstance(event, Checkpoint) else news.plain)
        elif self._clock() - self._spoke >= QUIET_SECONDS:
            self.say(f"{self._status.position()}: {self._status.rows()}  [{self._tail()}]")

    def say(self, text: str) -> None:
        self._spoke = self._clock()
        self._console.print(Text(f"{duration(self._status.elapsed())} {text}"), soft_wrap=True)

    def close(self) -> None:
        """Nothing is open."""

    def _tail(self) -> str:
        status = self._status
        slowed = f", slowed: {status.slowed()}" if status.slowed() else ""
        return (
            f"{spent(status.calls, status.tokens, status.usd)}, {status.in_flight()} in flight,"
            f" {status.left_in_words()}{slowed}"
        )


class LiveView(_StatusView):
    """A few lines that are drawn again in place; decisions scroll by above them."""

    def __init__(self, status: RunStatus, console: Console) -> None:
        super().__init__(status, console)
        self._live = Live(console=console, get_renderable=self._drawn, refresh_per_second=8, transient=True)

    def start(
        self,
        history: Iterable[Event] | None = None,
        in_flight: Callable[[], int] | None = None,
        slowed: Callable[[], str] | None = None,
    ) -> None:
        self._live.start()
        super().start(history, in_flight, slowed)

    def tell(self, event: Event) -> None:
        news = told(event, self._status)
        if news is not None:
            self._live.console.print(news, soft_wrap=True)

    def say(self, text: str) -> None:
        self._live.console.print(Text(text, style="bold"), soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def _drawn(self) -> Group:
        return Group(Text(""), panel(self._status))


def panel(status: RunStatus) -> Group:
    """Where a run stands, in a few lines: the same for the process that works on it and for one
    that watches.
    """
    title = Text("SkillOpt  ", style="bold")
    title.append(status.what())
    if status.is_simulated:
        title.append("  simulated ", style="black on yellow")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=9)
    grid.add_column(overflow="fold")
    bar = Table.grid(padding=(0, 1))
    share = (
        ProgressBar(total=max(1, status.total), completed=status.done, width=24) if status.total else Text("")
    )
    bar.add_row(Text(status.position(), style="cyan"), share, status.rows())
    grid.add_row("now", bar)
    if status.steps and status.is_at_work:
        grid.add_row("stages", _strip(status))
    if scores := status.scores():
        grid.add_row("val score", scores)
        grid.add_row("steps", Text(f"{status.marks()}  {status.verdicts()}".strip()))
    grid.add_row(
        "spent",
        f"{status.calls:,} calls · {status.tokens:,} tokens · cost {money(status.usd)} · {status.in_flight()}"
        " in flight",
    )
    if slowed := status.slowed():
        grid.add_row("slowed", Text(slowed, style="yellow"))
    grid.add_row("time", f"{duration(status.elapsed())} · {status.left_in_words()}")
    return Group(title, grid)


def told(event: Event, status: RunStatus) -> Text | None:
    """The line for a decision; None for what is no news."""
    line = line_of(event, status.steps)
    if line is None:
        return None
    colour = _COLOURS[line.tone]
    text = Text(line.head, style="" if line.word else colour)
    text.append(line.word, style=colour)
    text.append(line.rest)
    return text


def _strip(status: RunStatus) -> Text:
    strip = Text()
    for stage in status.strip():
        if stage.name == "baseline" and stage.state == "done":
            continue  # behind us for good
        sign, style = _STRIP[stage.state]
        strip.append(f"{sign}{_SHORT.get(stage.name, stage.name)} ", style=style)
    return strip
