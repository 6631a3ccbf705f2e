"""What a night works on, pinned: decides that a night which goes on after a stop is the same night, whatever
happened meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.changes.proposal import Cost, EditEvidence, Judgement
from skillopt.errors import UsageError
from skillopt.files import write_bytes
from skillopt.night.mine import MinedTask
from skillopt.night.targets import Aim
from skillopt.tasks.task import Split, Task

FILE = "tonight.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PinnedTask(_Record):
    """A mined task as it is asked tonight. All of it is redacted text."""

    id: str
    kind: str
    prompt: str
    split: Split
    reference: dict[str, Any]
    sessions: tuple[str, ...]
    origin: Literal["real", "dream"] = "real"
    """Whether the person asked it, or it was made of a task the person asked."""
    parent: str = ""
    """Of a dream the id of that task."""
    accepted: str = ""
    """An answer to it that the person was content with, where dreams are tried on one."""

    @classmethod
    def of(cls, task: MinedTask) -> PinnedTask:
        """The task as it was mined."""
        made = task.as_task()
        return cls(
            id=task.id,
            kind=task.kind,
            prompt=task.prompt,
            split=task.split,
            reference=dict(made.reference),
            sessions=task.sessions,
        )

    def as_task(self) -> Task:
        """For a run."""
        return Task(id=self.id, prompt=self.prompt, reference=self.reference, kind=self.kind)


class Dreams(_Record):
    """What became of the variants a model wrote of `of` train tasks; those that do not fit are counted by
    reason.
    """

    kept: int
    of: int
    dropped: dict[str, int]
    cost: Cost


class Past(_Record):
    """What a slow update across nights looks back to: the text before the oldest adopted night of the window,
    and tasks of nights since.
    """

    night: int
    nights_ago: int
    text: str
    tasks: tuple[PinnedTask, ...]


class Change(_Record):
    """An accepted edit: the text after it (of a memory file what then stands in our block), and where it
    comes from.
    """

    text: str
    evidence: EditEvidence


class Outcome(_Record):
    """What training came to for one skill; without changes there is nothing to propose."""

    claim: str
    judgement: Judgement
    cost: Cost
    changes: tuple[Change, ...] = ()
    rejected: int = 0
    """Edits that were applied to a candidate and not accepted."""
    notes: tuple[str, ...] = ()
    """What else a person should know of how it went."""


class Group(_Record):
    """One skill or memory file of the night."""

    name: str
    kind: Literal["skill", "memory"] = "skill"
    path: str
    before: str | None
    seed: str
    tasks: tuple[PinnedTask, ...]
    dreams: Dreams | None = None
    """None while no variants were asked for."""
    past: Past | None = None
    """None where there is nothing to look back to."""
    outcome: Outcome | None = None

    @classmethod
    def of(cls, aim: Aim) -> Group:
        """A skill as it was found."""
        tasks = tuple(PinnedTask.of(task) for task in aim.tasks)
        return cls(
            name=aim.name, kind=aim.kind, path=str(aim.path), before=aim.before, seed=aim.seed, tasks=tasks
        )

    def of_split(self, split: Split) -> tuple[Task, ...]:
        """Its tasks of a split, in their fixed order."""
        return tuple(task.as_task() for task in self.tasks if task.split == split)


class Tonight(_Record):
    """All that the night knows; each skill's outcome is added when it is there."""

    version: int = 1
    number: int
    started: datetime
    sessions: int
    next_since: datetime | None
    terms: str
    """Hash of the models and settings it was begun with; under others it would be another run."""
    advice: str
    """What the person said and decided, for the optimizer."""
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()
    suggestions: int = 0
    mining: Cost | None = None
    """What asking a model about the sessions took; None where none was asked."""

    @property
    def tasks(self) -> int:
        """How many of the person's requests it works on."""
        return sum(task.origin == "real" for group in self.groups for task in group.tasks)

    @property
    def spent(self) -> Cost:
        """What it took so far: mining, dreams, and the skills that are done."""
        dreams = (group.dreams.cost for group in self.groups if group.dreams is not None)
        done = (group.outcome.cost for group in self.groups if group.outcome is not None)
        return total([*([self.mining] if self.mining is not None else []), *dreams, *done])

    def with_group(self, place: int, group: Group, notes: Iterable[str] = ()) -> Tonight:
        """The night with one of its skills further on, and what there is to say about it."""
        groups = list(self.groups)
        groups[place] = group
        said = tuple(f"{group.name}: {note}" for note in notes)
        return self.model_copy(update={"groups": tuple(groups), "notes": (*self.notes, *said)})

    def with_outcome(self, place: int, outcome: Outcome) -> Tonight:
        """The night with one more skill done."""
        return self.with_group(
            place, self.groups[place].model_copy(update={"outcome": outcome}), outcome.notes
        )


def save(tonight: Tonight, folder: Path) -> None:
    """Write it into the night's folder, whole or not at all."""
    text = json.dumps(tonight.model_dump(mode="json"), indent=1, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_bytes(folder / FILE, f"{text}\n".encode("utf-8", "replace"), mode=0o600)


def load(folder: Path) -> Tonight:
    """Read it back. Raises `UsageError` where it cannot be."""
    try:
        return Tonight.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"The open night in {folder} cannot be read ({type(error).__name__}). `skillopt sleep run"
            " --restart` leaves it and begins anew."
        ) from error


def total(costs: Iterable[Cost]) -> Cost:
    """The sum; one unknown part makes its sum unknown."""
    every = list(costs)

    def added(values: list[Any]) -> Any:
        return None if any(value is None for value in values) else sum(values)

    return Cost(
        calls=added([cost.calls for cost in every]),
        tokens=added([cost.tokens for cost in every]),
        dollars=added([cost.dollars for cost in every]),
        minutes=added([cost.minutes for cost in every]),
    )
