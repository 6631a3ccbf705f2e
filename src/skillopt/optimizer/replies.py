"""What the optimizer model must answer at each stage; a reply is read strictly (`models/reading.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from skillopt.errors import suggest
from skillopt.events.place import Place
from skillopt.models.reading import Unusable as Unusable
from skillopt.models.reading import read as read
from skillopt.skill.document import ONE_DOCUMENT, Document, EditableFiles
from skillopt.skill.edits import OPS, REWRITE, SUGGEST, Edit, parse_edit

Mode = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
KINDS_OF_SUGGESTION = ("add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify")


def _items(properties: Mapping[str, Any], *, required: Sequence[str]) -> WithJsonSchema:
    """The JSON schema of a list of objects for providers; replies are read item by item, less strictly."""
    item = {"type": "object", "properties": dict(properties), "required": list(required)}
    return WithJsonSchema({"type": "array", "items": item})


def _notes(value: object) -> object:
    """Notes come as a text, a list of texts, or objects with `note` or `content`."""
    if isinstance(value, (str, Mapping)):
        value = [value]
    if not isinstance(value, list):
        return value
    return [
        note.get("note") or note.get("content") or "" if isinstance(note, Mapping) else note for note in value
    ]


def _text(value: object) -> object:
    """Words of explanation: nothing at all, or a number where a word was asked for, spoils no reply."""
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, float)) else value


def _lines(value: object) -> object:
    """A list of texts that came as one text, or not at all."""
    return [] if value is None else [value] if isinstance(value, str) else value


Notes: TypeAlias = Annotated[list[str], BeforeValidator(_notes)]
Explanation: TypeAlias = Annotated[str, BeforeValidator(_text)]
"""What explains a reply and decides nothing: read leniently, so that no step is lost over it."""
Lines: TypeAlias = Annotated[list[Explanation], BeforeValidator(_lines)]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow")


class FailurePattern(_Reply):
    failure_type: str = ""
    count: int = 0
    description: str = ""


class Proposals(_Reply):
    """A list of proposals. Each is read as an edit of its own, so that a bad one does not spoil others."""

    KEY: ClassVar[str]
    files: ClassVar[EditableFiles] = ONE_DOCUMENT
    """Which files of the skill may change."""

    @property
    def items(self) -> list[Any]:
        """The proposals as they came."""
        return list(getattr(self, self.KEY))

    @classmethod
    def edit_of(cls, obj: object, id: str) -> Edit:
        """Read one proposal; what cannot be read keeps the reason."""
        return parse_edit(obj, id, cls.files)

    def edits_at(self, place: Place, most: int | None = None, **evidence: Any) -> tuple[Edit, ...]:
        """The first proposals as edits, numbered from that place, with this evidence beside their own."""
        return tuple(
            self.edit_of(
                {**evidence, **proposal} if isinstance(proposal, dict) else proposal,
                str(replace(place, number=at)),
            )
            for at, proposal in enumerate(self.items[:most])
        )


class Payload(Proposals):
    """What analysts propose in one update mode, with the reasoning behind it."""

    NOUN: ClassVar[str]
    EXAMPLE: ClassVar[Mapping[str, Any]]
    IS_LIMITED: ClassVar[bool] = True
    """Whether the learning rate counts what is proposed; whole skills are not counted."""
    reasoning: Explanation = ""

    @classmethod
    def shown(cls, skill: Document) -> str:
        """What is shown of a skill: the document to write anew, or every file where edits can name one."""
        return skill.text


_EDIT: Mapping[str, Any] = {
    "op": {"enum": list(OPS)},
    "target": {"type": "string"},
    "content": {"type": "string"},
}
_TASKS: Mapping[str, Any] = {"tasks": {"type": "array", "items": {"type": "string"}}}


class Edits(Payload):
    KEY, NOUN = "edits", "edit"
    EXAMPLE = {"op": "append", "content": ""}
    edits: Annotated[list[Any], _items(_EDIT, required=["op"])]

    @classmethod
    def shown(cls, skill: Document) -> str:
        return skill.whole


class NamedEdits(Proposals):
    """What the analyst of a lane answers: edits, each with the tasks it should fix, and nothing else."""

    KEY = "edits"
    edits: Annotated[list[Any], _items({**_EDIT, **_TASKS}, required=["op", "content", "tasks"])]

    @model_validator(mode="before")
    @classmethod
    def _inside_a_patch(cls, reply: Any) -> Any:
        """Edits may come inside `patch`, where the analysts of the published loop put them."""
        patch = reply.get("patch") if isinstance(reply, Mapping) and "edits" not in reply else None
        return {**reply, **patch} if isinstance(patch, Mapping) else reply


P = TypeVar("P", bound=Proposals)


@cache
def for_files(shape: type[P], files: EditableFiles) -> type[P]:
    """The shape of edits for a skill of which these files may change: where there are several, each edit may
    name one.
    """
    if files == ONE_DOCUMENT:
        return shape
    with_tasks = issubclass(shape, NamedEdits)
    named = {**_EDIT, "path": {"type": "string"}, **(_TASKS if with_tasks else {})}
    edits = _items(named, required=["op", "content", "tasks"] if with_tasks else ["op"])
    fields: dict[str, Any] = {"edits": (Annotated[list[Any], edits], ...)}
    made = create_model(shape.__name__.replace("Edits", "FileEdits"), __base__=shape, **fields)
    made.files = files
    return made


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
    KEY, NOUN = "revise_suggestions", "suggestion"
    EXAMPLE = {"type": "add_rule", "title": "", "motivation": "", "instruction": "", "priority_hint": "high"}
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

    @classmethod
    def edit_of(cls, obj: object, id: str) -> Edit:
        """What a rewrite of the skill should do: the instruction is the content of the edit."""
        if not isinstance(obj, Mapping):
            problem = f"a suggestion is a JSON object, this is {type(obj).__name__}"
            return Edit(SUGGEST, id=id, problem=problem)
        fields, problem = {key: _as_text(obj.get(key)) for key in cls.EXAMPLE}, ""
        if (kind := fields["type"]) not in KINDS_OF_SUGGESTION:
            problem = f"no suggestion has the type {kind[:40]!r}. {suggest(kind, KINDS_OF_SUGGESTION)}"
        elif not fields["instruction"].strip():
            problem = "the suggestion has no instruction"
        content = fields.pop("instruction")
        evidence = {key: text for key, text in fields.items() if text} | _others(obj, cls.EXAMPLE)
        return Edit(SUGGEST, content=content, evidence=evidence, id=id, problem=problem)


class Candidates(Payload):
    KEY, NOUN = "skill_candidates", "skill"
    EXAMPLE = {"title": "", "change_summary": [""], "new_skill": ""}
    IS_LIMITED = False
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

    @classmethod
    def edit_of(cls, obj: object, id: str) -> Edit:
        """A whole new skill: its text is the content of the edit."""
        if not isinstance(obj, Mapping):
            problem = f"a candidate is a JSON object, this is {type(obj).__name__}"
            return Edit(REWRITE, id=id, problem=problem)
        fields, text = obj.get("change_summary") or [], _as_text(obj.get("new_skill"))
        summary = [*map(_as_text, fields if isinstance(fields, list) else [fields])]
        evidence = {"title": _as_text(obj.get("title")), "change_summary": summary}
        problem = "" if text.strip() else "new_skill is empty"
        return Edit(
            REWRITE, content=text, evidence=evidence | _others(obj, cls.EXAMPLE), id=id, problem=problem
        )


PAYLOADS: Mapping[Mode, type[Payload]] = {
    "patch": Edits,
    "rewrite_from_suggestions": Suggestions,
    "full_rewrite_minibatch": Candidates,
}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _others(obj: Mapping[Any, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in obj.items() if key not in named}


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


@cache  # making a pydantic class takes longer than everything else of an analyst's question
def analysis_of(payload: type[Payload], kind: str, *, notes: bool) -> type[Analysis]:
    """What an analyst of failures or of successes must answer."""
    base: type[Analysis] = FailureAnalysis if kind == "failure" else SuccessAnalysis
    wanted: dict[str, Any] = {"patch": (payload, ...)}
    if notes:
        wanted["appendix_notes"] = (Notes, ...)
    return create_model(f"{base.__name__}_{payload.KEY}", __base__=base, **wanted)


class CondensedNotes(_Reply):
    appendix_notes: Notes


class LearningRate(_Reply):
    learning_rate: int = Field(ge=0)
    reasoning: Explanation = ""
    confidence: Explanation = ""
    risk_notes: Lines = Field(default_factory=list)


class Rewrite(_Reply):
    reasoning: Explanation = ""
    change_summary: Lines = Field(default_factory=list)
    new_skill: str


class Ranking(_Reply):
    reasoning: Explanation = ""
    selected_indices: list[int]


class AdviceReply(_Reply):
    """What the longer view teaches; each kind has its own key for the text."""

    STAGE: ClassVar[str]
    reasoning: Explanation = ""

    @property
    def text(self) -> str:
        return str(getattr(self, f"{self.STAGE}_content"))


class SlowUpdate(AdviceReply):
    STAGE = "slow_update"
    slow_update_content: str


class MetaSkill(AdviceReply):
    STAGE = "meta_skill"
    meta_skill_content: str
