"""A folder of questions and answers as files: what a round looks like, and which answers may be used."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import RunConflict
from skillopt.files import read_text, write_bytes, write_json, write_text
from skillopt.messages import Finish, Message, Reply, Request, ToolCall, as_plain
from skillopt.models.reading import misfits

FORMAT = "skillopt.handoff.v1"
INDEX = "questions.json"
GUIDE = "README.md"
MOST_MISFITS = 5
TOOL_REPLY: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "tool_calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["content", "tool_calls"],
    "additionalProperties": False,
}
"""The answer to a question with tools: what is said, and the calls that are wanted. No calls: it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Where a question lies, and what its page was when it was written."""

    folder: Path
    name: str
    answer: str
    digest: str
    images: tuple[str, ...] = ()

    @property
    def page(self) -> Path:
        return self.folder / f"{self.name}.md"

    @property
    def answer_path(self) -> Path:
        return self.folder / self.answer


class QuestionFolder:
    """All rounds of one folder: `round-001/` with a page a question, an index, and answers beside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._questions = {
            key: question for round_folder in self._rounds() for key, question in _read_index(round_folder)
        }

    def __eq__(self, other: object) -> bool:
        """Two objects of one folder are equal: the questions of both roles make one round."""
        return isinstance(other, QuestionFolder) and other.folder == self.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    def look(self, request: Request) -> Reply | str:
        """The answer to a question, or why none can be used; the empty text: nobody answered yet."""
        question = self._questions.get(question_id(request))
        if question is None or not question.answer_path.exists():
            return ""
        if _digest_of(question.page) != question.digest:
            return (
                f"{question.page} was changed or removed after it was asked, so its answer may belong to"
                f" another question. Take {question.answer} away; the page is written again when the command"
                " is run"
            )
        try:
            text = question.answer_path.read_bytes().decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            return f"{question.answer_path} cannot be read: {error}"
        if not text:
            return f"{question.answer_path} is empty"
        return _reply(request, text, question.answer_path)

    def publish(self, requests: Sequence[Request]) -> None:
        """Put questions into the folder: new ones become a round, whole or not at all."""
        for request in requests:
            self._restore(request)
        asked = {question_id(request): request for request in requests}
        fresh = {key: request for key, request in asked.items() if key not in self._questions}
        if not fresh:
            return
        number = 1 + max((_number(folder) for folder in self._rounds()), default=0)
        final = self.folder / f"round-{number:03d}"
        partial = self.folder / f".{final.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        # By id, which is a hash: the order tells nobody which split or step a question comes from.
        entries = [
            _write(partial, f"{place:03d}-{key}", fresh[key])
            for place, key in enumerate(sorted(fresh), start=1)
        ]
        write_json(partial / INDEX, {"format": FORMAT, "round": number, "questions": entries})
        write_text(partial / GUIDE, guide(entries))
        partial.rename(final)
        self._questions.update(_read_index(final))

    def open_rounds(self, requests: Sequence[Request]) -> list[str]:
        """The rounds in which these questions lie, with how many of them each holds."""
        counts: dict[Path, int] = {}
        for request in requests:
            folder = self._questions[question_id(request)].folder
            counts[folder] = counts.get(folder, 0) + 1
        return [f"{folder} ({count} open)" for folder, count in sorted(counts.items())]

    def strays(self) -> list[Path]:
        """Files in the rounds that are neither ours nor an answer: answers under a wrong name, mostly."""
        ours = {path for one in self._questions.values() for path in (one.page, one.answer_path)}
        ours |= {one.folder / image for one in self._questions.values() for image in one.images}
        ours |= {folder / name for folder in self._rounds() for name in (INDEX, GUIDE)}
        return sorted(
            path
            for folder in self._rounds()
            for path in folder.iterdir()
            if path not in ours and not path.name.startswith(".")
        )

    def _restore(self, request: Request) -> None:
        """Write the page of an open question again if somebody changed it."""
        question = self._questions.get(question_id(request))
        if question is None or question.answer_path.exists() or _digest_of(question.page) == question.digest:
            return
        entry = _write(question.folder, question.name, request)
        told = json.loads(read_text(question.folder / INDEX))
        told["questions"] = [entry if one["id"] == entry["id"] else one for one in told["questions"]]
        write_json(question.folder / INDEX, told)
        self._questions.update(_read_index(question.folder))

    def _rounds(self) -> list[Path]:
        return sorted(self.folder.glob("round-*"), key=_number) if self.folder.is_dir() else []


def question_id(request: Request) -> str:
    """The identity of a question: what is asked, by whom and at which place of the run."""
    asked = (request.messages, request.tools, request.schema, request.max_tokens)
    stage = request.stage if request.role == "optimizer" else ""
    parts = [request.role, stage, request.place, request.draw, *asked]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=as_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answer_schema(request: Request) -> Mapping[str, Any] | None:
    """What the answer's JSON must fit; None where it is free text."""
    return TOOL_REPLY if request.tools else request.schema


def _write(folder: Path, name: str, request: Request) -> dict[str, Any]:
    """Write a question's page and images; returns its entry in the index."""
    images = [image for message in request.messages for image in message.images]
    files = [
        f"{name}.image-{place}.{image.media_type.rpartition('/')[2]}"
        for place, image in enumerate(images, start=1)
    ]
    for file, image in zip(files, images, strict=True):
        write_bytes(folder / file, base64.b64decode(image.data))
    schema = answer_schema(request)
    answer = f"{name}.answer.{'md' if schema is None else 'json'}"
    text = page(request, name=name, answer=answer, schema=schema, images=files)
    write_text(folder / f"{name}.md", text)
    return {
        "id": question_id(request),
        "page": f"{name}.md",
        "answer": answer,
        "role": request.role,
        # A target's stage would say which questions are the sealed test.
        **({"stage": request.stage} if request.role == "optimizer" else {}),
        "place": request.place,
        "draw": request.draw,
        "max_tokens": request.max_tokens,
        "schema": schema,
        "images": files,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def _read_index(folder: Path) -> Iterator[tuple[str, Question]]:
    try:
        told = json.loads(read_text(folder / INDEX))
        if told["format"] != FORMAT:
            raise ValueError(f"its format is {told['format']!r}, not {FORMAT!r}")
        for entry in told["questions"]:
            question = Question(
                folder=folder,
                name=str(entry["page"]).removesuffix(".md"),
                answer=str(entry["answer"]),
                digest=str(entry["sha256"]),
                images=tuple(entry["images"]),
            )
            yield str(entry["id"]), question
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunConflict(
            f"{folder / INDEX} cannot be used: {error!r}. Put the file back as it was, or take the whole"
            " folder away: its questions are then asked again, and answers that were used already are kept"
            " in the run."
        ) from None


def _reply(request: Request, text: str, path: Path) -> Reply | str:
    schema = answer_schema(request)
    if schema is None:
        return Reply(text=text, finish="stop", usage=None, model="handoff")
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return f"{path} holds half of a surrogate pair, which is no text; write the character itself"
    except (ValueError, RecursionError) as error:
        return f"{path} is no JSON ({error}); it must hold one JSON object and nothing else"
    problems = list(misfits(value, schema))
    if problems:
        more = f" and {len(problems) - MOST_MISFITS} more" if len(problems) > MOST_MISFITS else ""
        return f"{path} does not fit the schema on its page: {'; '.join(problems[:MOST_MISFITS])}{more}"
    if not request.tools:
        return Reply(text=text, finish="stop", usage=None, model="handoff")
    said = [(call["name"], json.dumps(call["arguments"], ensure_ascii=False)) for call in value["tool_calls"]]
    calls = tuple(
        ToolCall(id=f"call-{index}", name=name, arguments=given) for index, (name, given) in enumerate(said)
    )
    finish: Finish = "tool_calls" if calls else "stop"
    return Reply(text=value["content"], finish=finish, usage=None, tool_calls=calls, model="handoff")


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _number(folder: Path) -> int:
    digits = folder.name.removeprefix("round-")
    return int(digits) if digits.isdigit() else 0


def page(
    request: Request, *, name: str, answer: str, schema: Mapping[str, Any] | None, images: Sequence[str]
) -> str:
    """The whole text of a question's page."""
    if schema is None:
        form = (
            "The whole content of that file is your answer, word for word, as the last message below asks"
            " for it."
        )
    else:
        form = (
            "That file holds one JSON object and nothing else, no code fence around it. It must fit this"
            f" schema:\n\n{_json(schema)}"
        )
    parts = [
        f"# Question {name}",
        (
            f"Be the assistant of the conversation below and write its next message into the file `{answer}`"
            " in this folder."
        ),
        "Answer from this page alone: do not look at other questions, answers or files.",
        form,
        f"Use at most about {request.max_tokens} tokens. Do not change this page.",
    ]
    if request.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
            for tool in request.tools
        ]
        parts.append(
            "`tool_calls` may ask for these tools; with an empty list your `content` is"
            f" final:\n\n{_json(tools)}"
        )
    if images:
        parts.append("Images of the conversation, in order: " + ", ".join(f"`{image}`" for image in images))
    parts += [_message(place, message) for place, message in enumerate(request.messages, start=1)]
    return "\n\n".join(parts) + "\n"


def guide(entries: Sequence[Mapping[str, Any]]) -> str:
    """What stands beside the questions of a round."""
    listed = "\n".join(f"- `{entry['page']}` -> `{entry['answer']}`" for entry in entries)
    return (
        f"# {len(entries)} questions\n\nA run of SkillOpt waits for these answers. Read each page by itself"
        " and write its answer into the file named on it, in this folder. An agent should give every page to"
        " a fresh assistant that sees nothing else. Programs find everything in `questions.json`.\n\nWhen"
        " all are answered, run the same command again. Some may stay open: the run goes as far as it"
        f" can.\n\n{listed}\n"
    )


def _message(place: int, message: Message) -> str:
    head = f"===== message {place}: {message.role} =====" + (
        f" (result of {message.tool_call_id})" if message.tool_call_id else ""
    )
    calls = "".join(f"\n[calls {call.name} as {call.id}: {call.arguments}]" for call in message.tool_calls)
    return f"{head}\n\n{message.content}{calls}"


def _json(value: Any) -> str:
    return "```json\n" + json.dumps(value, indent=1, ensure_ascii=False) + "\n```"
