"""What the optimizer model must answer at each stage, and the strict reading of it: a reply is usable as it stands or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from skillopt.messages import Reply


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


Notes: TypeAlias = Annotated[list[str], BeforeValidator(_notes)]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow")


class FailurePattern(_Reply):
    failure_type: str = ""
    count: int = 0
    description: str = ""


class Payload(_Reply):
    """A list of proposals with the reasoning behind them; each update mode has its own key for the list."""

    KEY: ClassVar[str]
    reasoning: str = ""

    @property
    def items(self) -> list[Any]:
        """The proposals as they came; each is read on its own, so that one bad item does not spoil the others."""
        return list(getattr(self, self.KEY))


class Edits(Payload):
    KEY = "edits"
    edits: Annotated[
        list[Any],
        _items(
            {"op": {"enum": ["append", "insert_after", "replace", "delete"]}, "target": {"type": "string"}, "content": {"type": "string"}},
            required=["op"],
        ),
    ]


class Suggestions(Payload):
    KEY = "revise_suggestions"
    revise_suggestions: Annotated[
        list[Any],
        _items(
            {
                "type": {"enum": ["add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify"]},
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
    reasoning: str = ""
    confidence: str = ""
    risk_notes: list[str] = Field(default_factory=list)


class Rewrite(_Reply):
    reasoning: str = ""
    change_summary: list[str] = Field(default_factory=list)
    new_skill: str


class Ranking(_Reply):
    reasoning: str = ""
    selected_indices: list[int]


class SlowUpdate(_Reply):
    reasoning: str = ""
    slow_update_content: str


class MetaSkill(_Reply):
    reasoning: str = ""
    meta_skill_content: str


class Unusable(Exception):
    """A reply that cannot be used; the text says why, in words the model can act on."""


R = TypeVar("R", bound=BaseModel)
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```", re.DOTALL)


def read(reply: Reply, shape: type[R]) -> R:
    """The reply as its shape. Truncated, refused, ambiguous or ill-shaped replies are unusable; nothing is repaired or guessed."""
    if reply.finish == "length":
        raise Unusable("the reply was cut off before it ended")
    if reply.finish == "refusal":
        raise Unusable("the request was refused")
    try:
        return shape.model_validate(_whole(_json_object(reply.text)))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {e['msg']}" for e in error.errors()[:5])
        raise Unusable(f"the JSON has the wrong shape: {problems}") from error


def _json_object(text: str) -> dict[str, Any]:
    """The one JSON object of a reply: alone, in a single fence, or inside prose when only one top-level object is there."""
    candidates = [text.strip(), *[match.strip() for match in _FENCE.findall(text)]]
    for candidate in candidates:
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):  # nested beyond reading is as unusable as not JSON
            continue
        if isinstance(found, dict):
            return found
    objects = _top_level_objects(text)
    if len(objects) == 1:
        return objects[0]
    raise Unusable("there is no JSON object in the reply" if not objects else f"there are {len(objects)} JSON objects, one is wanted")


def _whole(value: Any) -> Any:
    """The same without halves of surrogate pairs, which a JSON escape can hold and no file can."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _top_level_objects(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    objects: list[dict[str, Any]] = []
    at = text.find("{")
    tries = 0
    while at != -1 and tries < 200:  # bounded: prose full of braces must not cost quadratic time
        tries += 1
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict) and found:
                objects.append(found)
        at = text.find("{", end)
    return objects
