"""The task of a night: a person's request with the measure of its answers, and the split it falls into."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from skillopt.night.requests import RequestOutcome
from skillopt.night.settings import NightSettings
from skillopt.tasks.scorers._given import read_rules
from skillopt.tasks.scorers._rules import Rule
from skillopt.tasks.task import Split, Task

MIN_VAL = 5
"""Fewer val tasks than this decide nothing: the result is an unverified suggestion."""
Standing = Literal["ready", "unverified", "suggestions"]


class NightTask(BaseModel):
    """One request that can be asked again. All of it is redacted text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    kind: str
    """Title of the kind of request it is."""
    prompt: str
    split: Split
    checks: tuple[dict[str, Any], ...] = ()
    rubric: str = ""
    project: str = ""
    outcome: RequestOutcome = "unknown"
    skills: tuple[str, ...] = ()
    """Skills that were used when it was asked."""
    sessions: tuple[str, ...] = ()
    """`source:id` of the sessions it was asked in."""
    origin: Literal["real", "dream"] = "real"
    """Whether the person asked it, or it was made of a task the person asked."""
    parent: str = ""
    """Of a dream the id of that task."""
    accepted: str = ""
    """An answer to it that the person was content with, where dreams are tried on one."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its checks, as far as they can be read."""
        return read_rules(list(self.checks))[0]

    def as_task(self) -> Task:
        """For a run; scored by `NightScorer`."""
        reference = {"checks": list(self.checks), "rubric": self.rubric}
        return Task(id=self.id, prompt=self.prompt, reference=reference, kind=self.kind)


def split_of(form: str, settings: NightSettings) -> Split:
    """The split of a request by its normal form alone, so that it is the same in every night."""
    share = int.from_bytes(hashlib.sha256(f"{settings.seed}\0{form}".encode()).digest()[:8], "big") / 2**64
    if share < settings.val:
        return "val"
    return "test" if share < settings.val + settings.test_fraction else "train"


def standing_of(tasks: Sequence[NightTask], suggestions: int) -> tuple[Standing, str]:
    """What may be claimed of a training run on these tasks, and that in words."""
    count = Counter(task.split for task in tasks)
    if not count["train"] or not count["val"]:
        what = f"{len(tasks)} tasks can be replayed" if tasks else "No task can be replayed"
        more = f"; {suggestions} suggestions are for you to read" if suggestions else ""
        return (
            "suggestions",
            f"{what}, and training needs some to learn from and others to decide with{more}.",
        )
    if count["val"] < MIN_VAL:
        return "unverified", (
            f"Unverified suggestion: tasks to decide with are {count['val']}, fewer than {MIN_VAL}; a gain on"
            " them may be chance."
        )
    return "ready", f"{count['train']} tasks to learn from and {count['val']} to decide with."
