"""The task of a night: a person's request with the measure of its answers, and the split it falls into."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from skillopt.changes import StoredRecord
from skillopt.runs.words import count
from skillopt.tasks.scorers.checks import read_rules
from skillopt.tasks.scorers.rules import Rule
from skillopt.tasks.task import Split, Task
from skillopt_sleep.requests import RequestOutcome
from skillopt_sleep.scorer import Guards
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.worktrees import WORKTREE, Worktree

MIN_VAL = 5
"""Fewer val tasks than this can show nothing: even all of them better could be chance."""
_OBJECTION, _ACCEPTED = 300, 800
Standing = Literal["ready", "unverified", "suggestions"]


class NightTask(StoredRecord):
    """One request that can be asked again. All of it is redacted text."""

    id: str
    kind: str
    """Title of the kind of request it is."""
    prompt: str
    split: Split
    checks: tuple[dict[str, Any], ...] = ()
    rubric: str = ""
    formal: tuple[str, ...] = ()
    """Points of the rubric that see form alone."""
    project: str = ""
    outcome: RequestOutcome = "unknown"
    skills: tuple[str, ...] = ()
    """Skills that were used when it was asked."""
    sessions: tuple[str, ...] = ()
    """`source:id` of the sessions it was asked in."""
    accepted: str = ""
    """Of a train task an answer that the person was content with."""
    objections: tuple[str, ...] = ()
    """Of a train task what the person said against answers."""
    guards: Guards = Guards()
    """What any answer must be beside its measure."""
    worktree: Worktree | None = None
    """Where it is worked on, by an agent with tools; None where its text is all there is."""
    form_alone: bool = False
    """Whether an answer that nobody worked for could pass: a gain on it shows nothing, a loss is one."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its checks, as far as they can be read."""
        return read_rules(list(self.checks))[0]

    def as_task(self) -> Task:
        """For a run; scored by `NightScorer`."""
        measure = {"checks": list(self.checks), "rubric": self.rubric}
        # Whoever writes the skill reads the references of train tasks.
        person: dict[str, Any] = {}
        person |= (
            {"the_person_said": [text[:_OBJECTION] for text in self.objections[:3]]}
            if self.objections
            else {}
        )
        person |= {"the_person_accepted": self.accepted[:_ACCEPTED]} if self.accepted else {}
        return Task(
            id=self.id,
            prompt=self.prompt,
            reference={**person, **measure},
            kind=self.kind,
            surroundings="" if self.worktree is None else self.worktree.digest,
            data={
                "guards": self.guards.model_dump(mode="json"),
                **({"formal": list(self.formal)} if self.formal else {}),
                **({} if self.worktree is None else {WORKTREE: self.worktree.model_dump(mode="json")}),
            },
        )


class Suggestion(StoredRecord):
    """A wish of the person's that nobody could measure: adopted one by one, as such."""

    kind: str
    """Title of the kind of request it was said of."""
    wish: str
    """In the person's own words."""
    reason: str
    """Why it was not measured."""
    sessions: tuple[str, ...]
    """Those it was said in."""
    skills: tuple[str, ...] = ()
    """Skills that were used in requests of the kind."""
    path: Path | None = None
    """The file that it is suggested for, once that is known."""

    @property
    def line(self) -> str:
        """The wish as it would stand in the skill."""
        return f"- {self.kind[:1].upper()}{self.kind[1:]}: {' '.join(self.wish.split())}"


def split_of(form: str, settings: NightSettings) -> Split:
    """The split of a request by its normal form alone, so that it is the same in every night."""
    share = int.from_bytes(hashlib.sha256(f"{settings.seed}\0{form}".encode()).digest()[:8], "big") / 2**64
    if share < settings.val:
        return "val"
    return "test" if share < settings.val + settings.test_fraction else "train"


def balanced(
    forms: Iterable[str], pinned: Mapping[str, Split], others: Sequence[Split], settings: NightSettings
) -> dict[str, Split]:
    """The split of every request of one skill: as `pinned` by an earlier night, else by its form; where too
    few would decide, new ones are moved until `MIN_VAL` do and one is left to learn from, or half of fewer.
    `others` are the splits of what
    earlier nights asked and tonight did not.
    """
    made = {form: pinned.get(form) or split_of(form, settings) for form in forms}
    free = sorted(made.keys() - pinned.keys(), key=lambda form: hashlib.sha256(form.encode()).digest())
    total = len(made) + len(others)
    wanted = MIN_VAL if total > MIN_VAL else total // 2
    for form in free:
        every = [*made.values(), *others]
        if made[form] == "train" and every.count("val") < wanted:
            made[form] = "val"
        elif made[form] == "val" and "train" not in every and len(every) > 1:
            made[form] = "train"
    return made


def standing_of(tasks: Sequence[NightTask], *, has_suggestions: bool = False) -> tuple[Standing, str]:
    """What may be claimed of a training run on these tasks, and that in words."""
    splits = Counter(task.split for task in tasks)
    formal = sum(task.form_alone for task in tasks if task.split == "val")
    if not splits["train"] or not splits["val"]:
        what = f"{count(len(tasks), 'task')} can be replayed" if tasks else "No task can be replayed"
        more = "; what you said is suggested, for you to read" if has_suggestions else ""
        return (
            "suggestions",
            f"{what}, and training needs some to learn from and others to decide with{more}.",
        )
    learned, deciding = count(splits["train"], "task"), count(splits["val"], "task")
    if splits["val"] < MIN_VAL:
        return "unverified", (
            f"There is too little to decide with, {deciding} and not {MIN_VAL}: what is found could be"
            " chance. Later nights add theirs."
        )
    if splits["val"] - formal < MIN_VAL:
        return "unverified", (
            f"Of {deciding} to decide with, {formal} measured by form alone, which an answer made of the"
            " request's words has too: they show nothing unless a model finds a rubric that tells."
        )
    return "ready", f"{learned} to learn from and {splits['val']} to decide with."
