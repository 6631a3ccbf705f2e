"""The run folder as the trainer sees it."""

from __future__ import annotations

from typing import Protocol

from skillopt.events import Checkpoint, Event, HandedOver
from skillopt.events.state import MemoryEntry


class Log(Protocol):
    """Keeps what is decided, in order and once, and knows what was decided before."""

    def emit(self, event: Event) -> None: ...

    def last_checkpoint(self) -> Checkpoint | None:
        """Where the run stands."""
        ...

    def checkpoint(self, id: str) -> Checkpoint:
        """An earlier checkpoint."""
        ...

    def memory(self) -> tuple[MemoryEntry, ...]:
        """What the checkpoints so far told later analysts, as far back as they are told."""
        ...

    def handed_over(self) -> HandedOver | None:
        """What the budget's end handed over since the last checkpoint."""
        ...

    def looks(self, other_than: str) -> int:
        """How often test was looked at, not counting the look of that id."""
        ...
