"""How a question reads on its page: the conversation as it would have been sent, and what an answer must look
like; and in which way an answer does not: the part of JSON Schema that replies use, and nothing silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skillopt.messages import Message, Request

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


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def misfits(
    value: Any, schema: Any, root: Mapping[str, Any] | None = None, where: str = "the answer"
) -> Iterator[str]:
    """One sentence for each place where the value does not fit a part of the schema `root`."""
    if not isinstance(schema, Mapping):
        return
    root = schema if root is None else root
    if "$ref" in schema:
        yield from misfits(value, _resolved(str(schema["$ref"]), root), root, where)
        return
    for key in ("anyOf", "oneOf"):
        if key in schema and all(any(misfits(value, option, root, where)) for option in schema[key]):
            yield f"{where} fits none of the allowed forms"
            return
    for part in schema.get("allOf", ()):
        yield from misfits(value, part, root, where)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {schema['const']!r}"
        return
    wanted = schema.get("type")
    if wanted is not None and not any(
        _is(value, one) for one in ([wanted] if isinstance(wanted, str) else wanted)
    ):
        yield f"{where} must be of type {wanted}"
        return
    if isinstance(value, dict):
        yield from _in_object(value, schema, root, where)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from misfits(item, schema.get("items"), root, f"{where}[{index}]")


def _in_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} has no field {name!r}"
    further = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from misfits(item, known[name], root, f"{where}.{name}")
        elif further is False:
            yield f"{where} has an unknown field {name!r}"
        else:
            yield from misfits(item, further, root, f"{where}.{name}")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, ()))


def _resolved(ref: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in [
        part.replace("~1", "/").replace("~0", "~")
        for part in ref.removeprefix("#").strip("/").split("/")
        if part
    ]:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
