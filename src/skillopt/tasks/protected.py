"""What a skill may not hold of a task: its answers, the source of its patterns, the words of its rubric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """Texts of a task that would let a skill pass without being better; no criteria it may state."""

    references: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    rubrics: tuple[str, ...] = ()


@runtime_checkable
class Protects(Protocol):
    """A scorer or benchmark that knows better than its references what of a task is protected."""

    def protected(self, task: Task) -> Protected: ...


def protected_by(scorer: object, task: Task) -> Protected:
    """What is protected of a task: as its scorer or benchmark says, else every text of its reference."""
    if isinstance(scorer, Protects):
        return scorer.protected(task)
    return Protected(references=tuple(texts_of(task.reference)))


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a reference."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from texts_of(item)
