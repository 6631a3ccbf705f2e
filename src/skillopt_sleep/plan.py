"""What a night works on, written down before anything is paid, so that a stopped night goes on as it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, ValidationError

from skillopt.changes import StoredRecord
from skillopt.errors import UsageError
from skillopt.files import write_bytes
from skillopt.skill.steering import TextOrigins
from skillopt.tasks.task import Split, Task
from skillopt.transcripts.session import Harvest, RecordedSession
from skillopt_sleep.judgement import Cost, EditEvidence, Judgement, total_cost
from skillopt_sleep.tasks import NightTask, Standing, Suggestion
from skillopt_sleep.wording import own_words


class _KeptRecord(StoredRecord):
    """A record that is a file of the night's folder."""

    FILE: ClassVar[str]

    def save(self, folder: Path) -> None:
        """Write it into the night's folder, for its owner alone, whole or not at all."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
        write_bytes(folder / self.FILE, f"{text}\n".encode("utf-8", "replace"), mode=0o600)


class EarlierSkill(StoredRecord):
    """What a slow update looks back to: the text before the oldest adopted night, and tasks since."""

    night: int
    nights_ago: int
    text: str
    tasks: tuple[NightTask, ...]


class SkillOutcome(StoredRecord):
    """The result of training for one skill. Without edits there is nothing to propose."""

    claim: str
    judgement: Judgement
    cost: Cost
    edits: tuple[EditEvidence, ...] = ()
    """Each with the text after it: `Document.whole`, of a memory file our block."""
    rejected: int = 0
    """Edits that were applied to a candidate and not accepted."""
    refused: tuple[str, ...] = ()
    """What those would have added, for the optimizer of later nights."""
    notes: tuple[str, ...] = ()
    """What else a person should know of how it went."""

    @property
    def accepted(self) -> bool:
        """Whether the gate accepted the edits on held-out tasks that check more than form."""
        return bool(self.edits) and self.judgement.action == "accept"


class NightTarget(StoredRecord):
    """One skill, or our block of a memory file, with the tasks that are to make it better."""

    name: str
    kind: Literal["skill", "memory"] = "skill"
    path: Path
    before: str | None
    """The file as it is; None where there is none yet."""
    seed: str
    """What training starts from: the file's text, a new page, or our block of a memory file."""
    files: dict[str, str] = Field(default_factory=dict)
    """The references of the skill's folder as they are, by path: they are trained with it."""
    tasks: tuple[NightTask, ...]
    beside: str = ""
    """The text of the plug-in's skill that it is an overlay of."""
    earlier: EarlierSkill | None = None
    """None where there is nothing to look back to."""
    carried: SkillOutcome | None = None
    """What an earlier night proposed for this very text and nobody decided on: tonight starts from it."""
    outcome: SkillOutcome | None = None

    @property
    def formal(self) -> list[str]:
        """Held-out tasks that see form alone, beside others that tell: they may stop an edit and lift none.
        Empty where none tells, as then nothing is shown whatever they say.
        """
        held = [task for task in self.tasks if task.split == "val"]
        found = [task.id for task in held if task.form_alone]
        return found if len(found) < len(held) else []

    def of_split(self, split: Split) -> tuple[Task, ...]:
        """Its tasks of a split, in their fixed order."""
        return tuple(task.as_task() for task in self.tasks if task.split == split)

    @property
    def ended(self) -> SkillOutcome:
        """Its outcome, for a night that ended."""
        assert self.outcome is not None, "a night that ended has an outcome for every skill"
        return self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class NightInput:
    """What there is to learn from: what was mined from sessions, and the skills that it is about."""

    tasks: tuple[NightTask, ...]
    suggestions: tuple[Suggestion, ...] = ()
    standing: Standing
    """What may be claimed of a training run on the tasks."""
    note: str
    """The standing in words for a person."""
    states: Mapping[str, int] = field(default_factory=dict)
    """What became of the sessions: every one is counted once."""
    notes: tuple[str, ...] = ()
    """What a person should know about how it was found."""
    harvest: Harvest = field(default_factory=Harvest)
    sessions: tuple[RecordedSession, ...] = ()
    """Those of the project, out of all that were read."""
    unread: tuple[RecordedSession, ...] = ()
    """Sessions that a model has yet to read; nothing is learned of them until then."""
    targets: tuple[NightTarget, ...] = ()
    waiting: tuple[NightTask, ...] = ()
    """Tasks of skills that have too few of them yet."""
    cost: Cost | None = None
    """What asking a model took; None where none was asked."""

    @property
    def used(self) -> list[str]:
        """The sessions that tasks and suggestions are from, once for each of them."""
        every = [name for task in self.tasks for name in task.sessions]
        return every + [name for one in self.suggestions for name in one.sessions]


class NightPlan(_KeptRecord):
    """All that the night knows. Outcomes of skills are added as they come, and at the end how it went."""

    FILE = "tonight.json"

    version: Literal[4] = 4
    number: int
    started: datetime
    sessions: int
    seen: dict[str, int] = Field(default_factory=dict)
    """The sessions by name, and how many turns of each."""
    next_since: datetime | None
    terms: str
    """Hash of the models and settings it was begun with; under others it would be another run."""
    advice: str
    """What the person said and decided, for the optimizer."""
    targets: tuple[NightTarget, ...]
    waiting: tuple[NightTask, ...] = ()
    """Tasks of skills that have too few of them yet; another night uses them."""
    notes: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    states: dict[str, int] = Field(default_factory=dict)
    """What became of the sessions, each counted once."""
    mining: Cost | None = None
    """What asking a model about the sessions took; None where none was asked."""
    origins: TextOrigins = TextOrigins()
    """What edits may have their words from, and what was pasted or came out of tools."""
    ended: datetime | None = None
    """None for a night that is open, or was left."""
    outcome: str = ""
    """What came of it, in words."""
    proposal: str | None = None
    """Id of what it proposes."""
    cost: Cost = Cost()
    """What it took, as far as anybody counted it."""

    @property
    def tasks(self) -> int:
        """How many of the person's requests it works on."""
        return sum(len(target.tasks) for target in self.targets)

    @property
    def spent(self) -> Cost:
        """The cost so far: mining, and the training of the skills that are finished."""
        done = (target.outcome.cost for target in self.targets if target.outcome is not None)
        return total_cost([*([self.mining] if self.mining is not None else []), *done])

    @classmethod
    def load(cls, folder: Path) -> NightPlan:
        """Read it back. Raises `UsageError` where it cannot be."""
        try:
            return cls.model_validate_json((folder / cls.FILE).read_bytes())
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"The open night in {folder} cannot be read ({type(error).__name__}). `skillopt sleep run"
                " --restart` leaves it and begins anew."
            ) from error


class PinnedSessions(_KeptRecord):
    """The sessions a night was begun with, so that mining asks about the same turns after a stop: how far
    each went then, and nothing that was said in it.
    """

    FILE = "harvest.json"

    terms: str
    since: datetime | None
    next_since: datetime | None
    sessions: dict[str, tuple[int, datetime]]
    """Turns and end of each, by name."""

    @classmethod
    def load(cls, folder: Path, terms: str) -> PinnedSessions | None:
        """What the night in this folder was begun with; None where it was not, or under other terms."""
        try:
            pinned = cls.model_validate_json((folder / cls.FILE).read_bytes())
        except (OSError, ValidationError):  # it only spares questions: without it they are asked anew
            return None
        return pinned if pinned.terms == terms else None

    def as_then(
        self, found: Harvest, sessions: Iterable[RecordedSession]
    ) -> tuple[Harvest, tuple[RecordedSession, ...]]:
        """The same sessions as they were then, out of what is there now."""
        same = tuple(
            replace(session, turns=session.turns[: then[0]], ended=then[1])
            for session in sessions
            if (then := self.sessions.get(session.name)) is not None
        )
        return replace(found, next_since=self.next_since), same


def origins_of(
    sessions: Iterable[RecordedSession], tasks: Iterable[NightTask], targets: Iterable[NightTarget]
) -> TextOrigins:
    """Where the edits of a night may have words from: skills as they are, what the person typed, and beside
    them what was pasted and what tools gave back.
    """
    own = [text for one in targets for text in (one.before or "", one.seed, one.beside, *one.files.values())]
    foreign: list[str] = []
    asked = (text for task in tasks for text in (task.prompt, *task.objections))
    for text in chain(asked, (turn.text for session in sessions for turn in session.prompts)):
        for kept, part in zip((own, foreign), own_words(text), strict=True):
            kept.append(part)
    foreign += (turn.text for session in sessions for turn in session.turns if turn.role == "tool")
    return TextOrigins(
        own=tuple(filter(None, dict.fromkeys(own))), foreign=tuple(filter(None, dict.fromkeys(foreign)))
    )
