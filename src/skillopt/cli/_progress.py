"""What a person sees while a run works: a live view on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import COLOURS, say
from skillopt.events import Answered, Checkpoint, Event, Notice, Updated
from skillopt.events.records import StepRecord
from skillopt.gate.gate import FIRST_ANSWERS
from skillopt.run import OpenRun
from skillopt.runs.status import RunStatus
from skillopt.runs.words import LogLine, duration, line_of, money, one_line, spent
from skillopt.skill.edits import OPS, Edit

QUIET_SECONDS = 30.0
"""A plain line at least this often."""
LABEL, LONGEST_LINE = 14, 110
"""Columns of a label, and of a line that shows a first answer."""
MOST_LEARNED, LONGEST_LEARNED = 5, 300
"""Lines of an accepted step that are shown, and their characters."""
MEANINGS = {
    "rows?": "a row is one answer to one task, scored",
    "look": "a look is one opening of the sealed test; runs count them",
    "slow update": "slow update: what the comparison of two epochs teaches, kept apart in the skill",
}
"""Words of ours and what they mean, said once a run."""
_STRIP = {"done": ("✓", "green"), "now": ("▶", "bold cyan"), "ahead": ("·", "dim")}
_SHORT = {"slow update": "slow", "sealed test": "test"}
"""So that the strip fits a terminal of 80 columns."""


class View:
    """Shows a run on a console; by itself warnings and nothing else. A sink of events."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            self.say(f"warning: {event.text}")

    def say(self, text: str) -> None:
        """Show a sentence above the progress."""
        say(self._console, Text(text))

    def start(self, history: Sequence[Event] = ()) -> None:
        """Begin to show; `history` is what earlier sessions decided, where nobody told the status."""

    def follow(self, opened: OpenRun) -> None:
        """Begin to show an open run: what it decided before, its calls in flight and what slows them down."""
        self.start(list(opened.run.history()))

    def close(self) -> None:
        """Leave the terminal as it was."""


class _StatusView(View, ABC):
    """A view of a status. Whoever keeps that status up to date calls `tell`; others call the view itself."""

    def __init__(self, status: RunStatus, console: Console) -> None:
        super().__init__(console)
        self._status = status
        self._learned: dict[str, list[str]] = {}
        """What the candidates of the open step add or change, by digest."""
        self._explained: set[str] = set()
        self._answers: int | None = 0
        """First answers that were shown; None where a run goes on, whose answers were seen before."""

    def start(self, history: Sequence[Event] = ()) -> None:
        if history:
            self._answers = None
            self._status.replay(history)
            if self._status.fold.started is not None:
                self.say(self._status.where_it_stands())

    def follow(self, opened: OpenRun) -> None:
        ledger = opened.ledger
        self._status.reserved = lambda: (ledger.in_flight, ledger.account.tokens_reserved)
        self._status.oldest_call = ledger.oldest_call
        self._status.worked = opened.elapsed
        self._status.slowed = opened.models.slowed
        super().follow(opened)

    def __call__(self, event: Event) -> None:
        self._status(event)
        if isinstance(event, Answered):
            self._show_answer(event)
            return
        if isinstance(event, Updated):
            applied = (one.edit for one in event.outcomes if one.state == "applied")
            self._learned[event.digest] = [words for edit in applied if (words := learned(edit))]
        self.tell(event)
        if (line := line_of(event, self._status.steps)) is not None:
            self._show_more(event, line)

    def _show_more(self, event: Event, line: LogLine) -> None:
        """Below a decision: what an accepted step brought, and what a word means that is new here."""
        if isinstance(event, Checkpoint) and isinstance(event.record, StepRecord):
            taken = [one for one in self._learned if one.startswith(event.record.candidate_hash)]
            lines = self._learned[taken[0]] if taken and line.tone == "good" else []
            for text in lines[:MOST_LEARNED]:
                say(self._console, Text(f"  {text}", style="green"))
            if len(lines) > MOST_LEARNED:
                say(
                    self._console,
                    Text(f"  and {len(lines) - MOST_LEARNED} more: skillopt runs diff RUN", "dim"),
                )
            self._learned.clear()
        for word, meaning in MEANINGS.items():
            if word not in self._explained and re.search(rf"\b{word}\b", line.text):
                self._explained.add(word)
                say(self._console, Text(f"  ({meaning})", style="dim"))

    def _show_answer(self, event: Answered) -> None:
        """A first answer in three lines, before more is paid; those of later rounds are not shown."""
        if self._answers is None or self._answers == FIRST_ANSWERS:
            return
        if self._answers == 0:
            self.say("First answers, with the skill to start from:")
        self._answers += 1
        why = event.feedback or (f"expected {event.expected}" if event.expected and event.hard < 1 else "")
        score = f"score {event.hard:.3g}"
        for label, text in (("asked", event.prompt), ("answered", event.answer), (score, why)):
            room = min(self._console.width, LONGEST_LINE) - LABEL
            say(self._console, Text(f"  {label:<{LABEL - 3}} {one_line(text, room)}".rstrip()))

    @abstractmethod
    def tell(self, event: Event) -> None:
        """Show what the status has just taken in."""


class PlainLines(_StatusView):
    """One line per decision, and one after every half minute without."""

    def __init__(
        self, status: RunStatus, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(status, console)
        self._clock = clock
        self._spoke = clock()

    def start(self, history: Sequence[Event] = ()) -> None:
        super().start(history)
        with contextlib.suppress(RuntimeError):  # who watches another process has no event loop
            self._break_silence(asyncio.get_running_loop())

    def tell(self, event: Event) -> None:
        news = decision_text(event, self._status)
        if news is not None:
            self.say(f"{news.plain}  [{self._tail()}]" if isinstance(event, Checkpoint) else news.plain)
        else:
            self._say_where()

    def _say_where(self) -> float:
        """Say where the run stands if nothing was said for long; the seconds until that is so again."""
        silent = self._clock() - self._spoke
        if silent < QUIET_SECONDS:
            return QUIET_SECONDS - silent
        where = ": ".join(filter(None, (self._status.position(), self._status.rows())))
        self.say(f"{where}  [{self._tail()}]")
        return QUIET_SECONDS

    def _break_silence(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say where the run stands also while nothing arrives, until the loop ends."""
        loop.call_later(self._say_where(), self._break_silence, loop)

    def say(self, text: str) -> None:
        self._spoke = self._clock()
        say(self._console, Text(f"{duration(self._status.elapsed())} {text}"))

    def _tail(self) -> str:
        status = self._status
        parts = [spent(status.calls, status.tokens, status.usd), status.under_way()]
        slowed = [f"slowed: {status.slowed()}"] if status.slowed() else []
        return ", ".join([*parts, status.left_in_words(), *slowed])


class LiveView(_StatusView):
    """A few lines that are drawn again in place; decisions scroll by above them."""

    def __init__(self, status: RunStatus, console: Console) -> None:
        super().__init__(status, console)
        self._live = Live(
            console=console,
            get_renderable=lambda: Group(Text(""), panel(status)),
            refresh_per_second=8,
            transient=True,
        )

    def start(self, history: Sequence[Event] = ()) -> None:
        self._live.start()
        super().start(history)

    def tell(self, event: Event) -> None:
        news = decision_text(event, self._status)
        if news is not None:
            say(self._live.console, news)

    def say(self, text: str) -> None:
        say(self._live.console, Text(text, style="bold"))

    def close(self) -> None:
        self._live.stop()


def learned(edit: Edit) -> str:
    """An applied edit as a line of a difference; empty where it is none."""
    if edit.op == "delete":
        return f"- {one_line(edit.target, LONGEST_LEARNED)}"
    text = one_line(edit.content, LONGEST_LEARNED) if edit.op in OPS else ""
    return f"{'~' if edit.op == 'replace' else '+'} {text}" if text else ""


def panel(status: RunStatus) -> Group:
    """Where a run stands, in a few lines, for the process that works on it and for one that watches."""
    title = Text("SkillOpt  ", style="bold")
    title.append(status.what())
    if status.is_simulated:
        title.append("  simulated ", style="black on yellow")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=9)
    grid.add_column(overflow="fold")
    bar = Table.grid(padding=(0, 1))
    share = ProgressBar(total=status.total, completed=status.done, width=24) if status.total else Text("")
    bar.add_row(Text(status.position(), style="cyan"), share, status.rows())
    grid.add_row("now", bar)
    if status.steps and status.is_at_work:
        grid.add_row("stages", _strip(status))
    if scores := status.scores():
        grid.add_row("val score", scores)
        grid.add_row("steps", Text(f"{status.marks()}  {status.verdicts()}".strip()))
    paid = f"{status.calls:,} calls · {status.tokens:,} tokens · cost {money(status.usd)}"
    grid.add_row("spent", paid)
    grid.add_row("", status.under_way())
    if slowed := status.slowed():
        grid.add_row("slowed", Text(slowed, style="yellow"))
    grid.add_row("time", f"{duration(status.elapsed())} · {status.left_in_words()}")
    return Group(title, grid)


def decision_text(event: Event, status: RunStatus) -> Text | None:
    """The line for a decision; None for what is no news."""
    line = line_of(event, status.steps)
    if line is None:
        return None
    colour = COLOURS[line.tone]
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
