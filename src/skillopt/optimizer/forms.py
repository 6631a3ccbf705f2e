"""The ways a skill may change: what analysts propose in each update mode, how it is asked for and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal

from pydantic import create_model

from skillopt.errors import suggest
from skillopt.optimizer.ask import packaged
from skillopt.optimizer.replies import (
    KINDS_OF_SUGGESTION,
    Analysis,
    Candidates,
    Edits,
    FailureAnalysis,
    FileEdits,
    Notes,
    Payload,
    SuccessAnalysis,
    Suggestions,
)
from skillopt.skill.document import Document
from skillopt.skill.edits import Proposal, parse_edit
from skillopt.skill.paths import ONE_DOCUMENT, EditableFiles

Mode = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
_SAID = ("type", "title", "motivation", "instruction", "priority_hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What a rewrite of the skill should do."""

    type: str = ""
    title: str = ""
    motivation: str = ""
    instruction: str = ""
    priority_hint: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    id: str = ""
    problem: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two suggestions exact copies of each other."""
        return (self.type, self.title, self.instruction)

    def as_json(self) -> dict[str, Any]:
        """The JSON object prompts show."""
        return {key: said for key in _SAID if (said := getattr(self, key))} | dict(self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A whole new skill."""

    title: str = ""
    change_summary: tuple[str, ...] = ()
    new_skill: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    id: str = ""
    problem: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """Two candidates with the same text are copies."""
        return (self.new_skill,)

    def as_json(self) -> dict[str, Any]:
        """The JSON object prompts show."""
        return {
            "title": self.title,
            "change_summary": list(self.change_summary),
            "new_skill": self.new_skill,
            **self.evidence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One update mode as the stages see it."""

    mode: Mode
    payload: type[Payload]
    read: Callable[[object, str], Proposal]
    noun: str
    example: Mapping[str, Any]
    limited: bool = True
    """Whether the learning rate counts what is proposed; whole skills are not counted."""

    def shown(self, skill: Document) -> str:
        """What is shown of a skill: every file where edits can name one, else the document to write anew."""
        return skill.whole if self.mode == "patch" else skill.text

    def shape(self, kind: Literal["failure", "success"], *, notes: bool) -> type[Analysis]:
        """What an analyst must answer."""
        return _shape(self.payload, kind, notes)

    def words(self) -> dict[str, str]:
        """What the placeholders of the generic prompts mean in this mode."""
        analyst, _, merge = packaged(f"form_{self.mode}").partition("\n<!-- merge -->\n")
        example = json.dumps({self.payload.KEY: [dict(self.example)]})[1:-1]
        return {"form": analyst.strip(), "merging": merge.strip(), "items": example, "nouns": f"{self.noun}s"}


@cache  # making a pydantic class takes longer than everything else of an analyst's question
def _shape(payload: type[Payload], kind: str, notes: bool) -> type[Analysis]:
    base: type[Analysis] = FailureAnalysis if kind == "failure" else SuccessAnalysis
    wanted: dict[str, Any] = {"patch": (payload, ...)}
    if notes:
        wanted["appendix_notes"] = (Notes, ...)
    return create_model(f"{base.__name__}_{payload.KEY}", __base__=base, **wanted)


def read_suggestion(obj: object, id: str) -> Suggestion:
    """Read one suggestion; what cannot be read keeps the reason."""
    if not isinstance(obj, Mapping):
        return Suggestion(id=id, problem=f"a suggestion is a JSON object, this is {type(obj).__name__}")
    named, problem = {key: _text(obj.get(key)) for key in _SAID}, ""
    if (kind := named["type"]) not in KINDS_OF_SUGGESTION:
        problem = f"no suggestion has the type {kind[:40]!r}. {suggest(kind, KINDS_OF_SUGGESTION)}"
    elif not named["instruction"].strip():
        problem = "the suggestion has no instruction"
    return Suggestion(**named, evidence=_rest(obj, _SAID), id=id, problem=problem)


def read_candidate(obj: object, id: str) -> Candidate:
    """Read one whole skill; what cannot be read keeps the reason."""
    if not isinstance(obj, Mapping):
        return Candidate(id=id, problem=f"a candidate is a JSON object, this is {type(obj).__name__}")
    said, text = obj.get("change_summary") or [], _text(obj.get("new_skill"))
    return Candidate(
        title=_text(obj.get("title")),
        change_summary=tuple(map(_text, said if isinstance(said, list) else [said])),
        new_skill=text,
        evidence=_rest(obj, ("title", "change_summary", "new_skill")),
        id=id,
        problem="" if text.strip() else "new_skill is empty",
    )


def form_of(mode: Mode, files: EditableFiles) -> Form:
    """The update mode for a skill of which these files may change; only edits change more than SKILL.md."""
    form = FORMS[mode]
    if mode != "patch" or files == ONE_DOCUMENT:
        return form
    return replace(form, payload=FileEdits, read=partial(parse_edit, files=files))


FORMS: Mapping[Mode, Form] = {
    "patch": Form(
        mode="patch", payload=Edits, read=parse_edit, noun="edit", example={"op": "append", "content": ""}
    ),
    "rewrite_from_suggestions": Form(
        mode="rewrite_from_suggestions",
        payload=Suggestions,
        read=read_suggestion,
        noun="suggestion",
        example={
            "type": "add_rule",
            "title": "",
            "motivation": "",
            "instruction": "",
            "priority_hint": "high",
        },
    ),
    "full_rewrite_minibatch": Form(
        mode="full_rewrite_minibatch",
        payload=Candidates,
        read=read_candidate,
        noun="skill",
        example={"title": "", "change_summary": [""], "new_skill": ""},
        limited=False,
    ),
}


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _rest(obj: Mapping[str, Any], named: tuple[str, ...]) -> dict[str, Any]:
    return {str(key): value for key, value in obj.items() if key not in named}
