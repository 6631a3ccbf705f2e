"""What is written down of a proposal: the pinned text, every change with its evidence, the verdict and the
cost.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from skillopt.changes._memory_block import with_block
from skillopt.changes._seal import digest
from skillopt.changes._weave import Weave
from skillopt.skill.diff import unified


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(_Record):
    """Where an edit comes from: the edit as it was proposed, its step, and the tasks and sessions that showed
    the need for it.
    """

    edit: dict[str, Any] = {}
    place: str = ""
    why: str = ""
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


class Pair(_Record):
    """One held-out task with the old text and with the new one; None for what was not measured."""

    task: str
    title: str = ""
    before: float | None
    after: float | None


class Judgement(_Record):
    """What the gate said of a target's new text. Not `verified`: an unverified suggestion, whatever the
    action.
    """

    action: str
    verified: bool
    why: str
    before: float | None = None
    after: float | None = None
    metric: str = ""
    policy: str = ""
    gate_on: bool = True
    pairs: tuple[Pair, ...] = ()


class Cost(_Record):
    """What the night took; None is unknown and never 0."""

    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None

    def __str__(self) -> str:
        known = (
            f"{self.calls} calls" if self.calls is not None else "",
            f"{self.tokens:,} tokens" if self.tokens is not None else "",
            f"${self.dollars:.4f}" if self.dollars is not None else "dollars unknown",
            f"{self.minutes:.1f} min" if self.minutes is not None else "",
        )
        return ", ".join(filter(None, known))


class Change(_Record):
    """One change that can be adopted by itself, together with the changes it needs."""

    id: int
    evidence: tuple[Evidence, ...]
    needs: tuple[int, ...] = ()


class Target(_Record):
    """A file that would change. Of a skill the weave is the file; of a memory file it is only what stands in
    our block.
    """

    name: str
    kind: Literal["skill", "memory"]
    path: str
    before: str | None
    """The text as it was; None where there was no file. This is the pin: any other text is not overwritten.
    """
    weave: Weave
    changes: tuple[Change, ...]
    judgement: Judgement

    def text(self, chosen: Collection[int]) -> str | None:
        """The file's text with these changes; None for no file."""
        if not set(chosen) & set(self.weave.edits):
            return self.before
        woven = self.weave.text(chosen)
        return woven if self.kind == "skill" else with_block(self.before or "", woven)

    def data(self, chosen: Collection[int]) -> bytes | None:
        """The file's bytes with these changes; None for no file."""
        text = self.text(chosen)
        return None if text is None else text.encode()

    @property
    def pin(self) -> str | None:
        """Hash of the file as it was; None where there was none."""
        return digest(self.data(()))

    def diff(self, chosen: Collection[int] | None = None, *, over: Collection[int] = ()) -> str:
        """A unified diff of what these changes (all, unless told) do to the text that holds the changes
        `over`.
        """
        chosen = self.weave.edits if chosen is None else chosen
        old, new = self.text(over), self.text({*over, *chosen})
        return unified(old or "", new or "", "/dev/null" if old is None else self.path, self.path)


class Proposal(_Record):
    """What a night proposes, for one project."""

    format: Literal["skillopt.changes.proposal.v1"] = "skillopt.changes.proposal.v1"
    id: str
    created: datetime
    project: str
    night: str
    targets: tuple[Target, ...]
    cost: Cost
    notes: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes of all targets; their ids are unique in the proposal."""
        return tuple(change for target in self.targets for change in target.changes)
