"""What the optimizer model must answer at each stage; a reply is read strictly (`models/reading.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from skillopt.models.reading import Unusable as Unusable
from skillopt.models.reading import read as read
from skillopt.skill.edits import OPS

KINDS_OF_SUGGESTION = ("add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify")


def _items(properties: Mapping[str, Any], *, required: Sequence[str]) -> WithJsonSchema:
    """The schema that providers are shown of a list whose items are read one by one, leniently."""
    item = {"type": "object", "properties": dict(properties), "required": list(required)}
    return WithJsonSchema({"type": "array", "items": item})


def _notes(value: object) -> object:
    """Notes come as a text, a list of texts, or objects with `note` or `content`."""
    if isinstance(value, (str, Mapping)):
        value = [value]
    if not isinstance(value, list):
        return value
    return [one.get("note") or one.get("content") or "" if isinstance(one, Mapping) else one for one in value]


def _text(value: object) -> object:
    """Words of explanation: nothing at all, or a number where a word was asked for, spoils no reply."""
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, float)) else value


def _lines(value: object) -> object:
    """A list of texts that came as one text, or not at all."""
    return [] if value is None else [value] if isinstance(value, str) else value


Notes: TypeAlias = Annotated[list[str], BeforeValidator(_notes)]
Said: TypeAlias = Annotated[str, BeforeValidator(_text)]
"""What explains a reply and decides nothing: read leniently, so that no step is lost over it."""
Lines: TypeAlias = Annotated[list[Said], BeforeValidator(_lines)]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow")


class FailurePattern(_Reply):
    failure_type: str = ""
    count: int = 0
    description: str = ""


class Payload(_Reply):
    """A list of proposals with the reasoning behind them; each update mode has its own key for the list."""

    KEY: ClassVar[str]
    reasoning: Said = ""

    @property
    def items(self) -> list[Any]:
        """The proposals as they came; each is read on its own, so that a bad one does not spoil others."""
        return list(getattr(self, self.KEY))


_EDIT: Mapping[str, Any] = {
    "op": {"enum": list(OPS)},
    "target": {"type": "string"},
    "content": {"type": "string"},
}
_PATH: Mapping[str, Any] = {"path": {"type": "string"}}
_TASKS: Mapping[str, Any] = {"tasks": {"type": "array", "items": {"type": "string"}}}


class Edits(Payload):
    KEY = "edits"
    edits: Annotated[list[Any], _items(_EDIT, required=["op"])]


class FileEdits(Edits):
    """Edits of a skill that has several files."""

    edits: Annotated[list[Any], _items({**_EDIT, **_PATH}, required=["op"])]


class NamedEdits(_Reply):
    """What the analyst of a lane answers: edits, each with the tasks it should fix, and nothing else."""

    edits: Annotated[list[Any], _items({**_EDIT, **_TASKS}, required=["op", "content", "tasks"])]

    @model_validator(mode="before")
    @classmethod
    def _inside_a_patch(cls, reply: Any) -> Any:
        """Edits may come inside `patch`, where the analysts of the published loop put them."""
        patch = reply.get("patch") if isinstance(reply, Mapping) and "edits" not in reply else None
        return {**reply, **patch} if isinstance(patch, Mapping) else reply


class NamedFileEdits(NamedEdits):
    """The same of a skill that has several files."""

    edits: Annotated[list[Any], _items({**_EDIT, **_PATH, **_TASKS}, required=["op", "content", "tasks"])]


class WrittenSkill(_Reply):
    """What the analyst of a lane answers that writes the skill anew: the text, and for words of a changed
    line the tasks that it should fix.
    """

    new_skill: str
    changes: Annotated[
        list[Any], _items({"words": {"type": "string"}, **_TASKS}, required=["words", "tasks"])
    ] = Field(default_factory=list)


class WorkedRule(_Reply):
    """What the analyst of a lane answers in the small form: one rule with an example."""

    rule: str
    request: str
    answer: str


class Groups(_Reply):
    """Which proven edits say the same, by their numbers."""

    same: list[list[int]]


class Suggestions(Payload):
    KEY = "revise_suggestions"
    revise_suggestions: Annotated[
        list[Any],
        _items(
            {
                "type": {"enum": list(KINDS_OF_SUGGESTION)},
                "title": {"type": "string"},
                "motivation": {"type": "string"},
                "instruction": {"type": "string"},
                "priority_hint": {"enum": ["high", "medium", "low"]},
            },
            required=["type", "title", "instruction"],
        ),
    ]


class Candidates(Payload):
    KEY = "skill_candidates"
    skill_candidates: Annotated[
        list[Any],
        _items(
            {
                "title": {"type": "string"},
                "change_summary": {"type": "array", "items": {"type": "string"}},
                "new_skill": {"type": "string"},
            },
            required=["new_skill"],
        ),
    ]


class Analysis(_Reply):
    """What an analyst answers; the shape of `patch` is the update mode's."""

    batch_size: int = 0
    patch: Payload

    @property
    def notes(self) -> list[str]:
        """Notes for the appendix, where they were asked for."""
        return list(getattr(self, "appendix_notes", None) or [])


class FailureAnalysis(Analysis):
    failure_summary: list[FailurePattern] = Field(default_factory=list)


class SuccessAnalysis(Analysis):
    success_patterns: list[str] = Field(default_factory=list)


class Consolidated(_Reply):
    appendix_notes: Notes


class LearningRate(_Reply):
    learning_rate: int = Field(ge=0)
    reasoning: Said = ""
    confidence: Said = ""
    risk_notes: Lines = Field(default_factory=list)


class Rewrite(_Reply):
    reasoning: Said = ""
    change_summary: Lines = Field(default_factory=list)
    new_skill: str


class Ranking(_Reply):
    reasoning: Said = ""
    selected_indices: list[int]


class AdviceReply(_Reply):
    """What the longer view teaches; each kind has its own key for the text."""

    STAGE: ClassVar[str]
    reasoning: Said = ""

    @property
    def text(self) -> str:
        return str(getattr(self, f"{self.STAGE}_content"))


class SlowUpdate(AdviceReply):
    STAGE = "slow_update"
    slow_update_content: str


class MetaSkill(AdviceReply):
    STAGE = "meta_skill"
    meta_skill_content: str
