"""Decides what a person sees while a run works: a live view on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillopt.cli._status import Status
from skillopt.cli._words import duration, money, outcome, score, spent
from skillopt.events import Checkpoint, EpochEnded, Event, Notice, StageClosed, TestMeasured

QUIET_SECONDS = 30.0
"""A plain line at least this often while something arrives."""
_COLOURS = {"accepted": "green", "rejected": "yellow", "taken without a gate": "yellow", "inconclusive": "red"}


class View(Protocol):
    """A watcher of a run: an event sink that also takes in what was decided before, and sentences from the command itself."""

    def __call__(self, event: Event) -> None: ...

    def start(self, history: Sequence[Event], gauge: Callable[[], int] | None = None, brake: Callable[[], str] | None = None) -> None:
        """Begin to show; `history` is what earlier sessions decided, `gauge` counts the calls in flight, `brake` tells what slows them."""
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

    def start(self, history: Sequence[Event], gauge: Callable[[], int] | None = None, brake: Callable[[], str] | None = None) -> None:
        """Nothing is shown."""

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        """Nothing is open."""


class PlainLines:
    """One line per decision, and one now and then in between."""

    def __init__(self, status: Status, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._status = status
        self._console = console
        self._clock = clock
        self._spoke = clock()

    def start(self, history: Sequence[Event], gauge: Callable[[], int] | None = None, brake: Callable[[], str] | None = None) -> None:
        self._status.replay(history)
        self._status.gauge, self._status.brake = gauge, brake
        if history:
            self.say(self._status.where_it_stands())

    def __call__(self, event: Event) -> None:
        self._status(event)
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
        return f"{spent(status.calls, status.tokens, status.usd)}, {status.in_flight()} in flight, {status.left_in_words()}{slowed}"


class LiveView:
    """A few lines that are drawn again in place; decisions scroll by above them."""

    def __init__(self, status: Status, console: Console) -> None:
        self._status = status
        self._live = Live(console=console, get_renderable=self._drawn, refresh_per_second=8, transient=True)

    def start(self, history: Sequence[Event], gauge: Callable[[], int] | None = None, brake: Callable[[], str] | None = None) -> None:
        self._status.replay(history)
        self._status.gauge, self._status.brake = gauge, brake
        self._live.start()
        if history:
            self.say(self._status.where_it_stands())

    def __call__(self, event: Event) -> None:
        self._status(event)
        news = told(event, self._status)
        if news is not None:
            self._live.console.print(news, soft_wrap=True)

    def say(self, text: str) -> None:
        self._live.console.print(Text(text, style="bold"), soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def _drawn(self) -> Group:
        status = self._status
        title = Text("SkillOpt  ", style="bold")
        title.append(status.what())
        if status.simulated:
            title.append("  simulated ", style="black on yellow")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        bar = Table.grid(padding=(0, 1))
        share = ProgressBar(total=max(1, status.total), completed=status.done, width=24) if status.total else Text("")
        bar.add_row(Text(status.position(), style="cyan"), share, status.rows())
        grid.add_row("now", bar)
        if status.baseline is not None:
            best = f"{score(status.best)} ({f'step {status.best_step}' if status.best_step else 'the seed'})"
            grid.add_row("val score", f"current {score(status.score)} · best {best} · seed {score(status.baseline)}")
            grid.add_row("steps", status.verdicts())
        grid.add_row(
            "spent", f"{status.calls:,} calls · {status.tokens:,} tokens · cost {money(status.usd)} · {status.in_flight()} in flight"
        )
        if slowed := status.slowed():
            grid.add_row("slowed", Text(slowed, style="yellow"))
        grid.add_row("time", f"{duration(status.elapsed())} · {status.left_in_words()}")
        return Group(Text(""), title, grid)


def told(event: Event, status: Status) -> Text | None:
    """The line for a decision; None for what is no news."""
    if isinstance(event, Notice):
        return Text(
            f"{'warning' if event.level == 'warning' else 'note'}: {event.text}", style="yellow" if event.level == "warning" else ""
        )
    if isinstance(event, Checkpoint) and event.kind == "baseline":
        return Text(f"seed skill: {score(event.state['baseline_score'])} on val")
    if isinstance(event, Checkpoint) and event.kind == "step":
        record = event.record
        word = outcome(record["action"])
        line = Text(f"step {record['step']}/{status.steps}: ")
        line.append(word, style=_COLOURS.get(word, ""))
        edits = record["edit_apply_summary"]["applied"]
        line.append(f", {record['why']} ({edits} {'edit' if edits == 1 else 'edits'})")
        return line
    if isinstance(event, Checkpoint) and event.kind == "reopened":
        return Text(f"step {event.record['from_step']} and what followed it are open again")
    if isinstance(event, EpochEnded) and "why" in event.slow_update:
        return Text(f"end of epoch {event.epoch}: slow update {outcome(event.slow_update['action'])}, {event.slow_update['why']}")
    if isinstance(event, TestMeasured):
        return Text(f"sealed test opened (look {event.look})")
    if isinstance(event, StageClosed):
        lost = [row for row in event.rows if row.invalid]
        if lost:
            kinds = ", ".join(sorted({row.invalid or "" for row in lost}))
            return Text(
                f"{event.place} {event.stage}: {len(lost)} of {len(event.rows)} rows could not be measured ({kinds})", style="yellow"
            )
    return None
