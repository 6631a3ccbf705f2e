"""How a reply's schema is asked for on the wire, and what happens when a server refuses that form of
asking.

What was asked is keyed by messages and schema; the form on the wire is no part of any key or fingerprint, so
a run that had to step down finds its stored replies again, and a resumed run that first tries the higher form
again reaches the same questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from skillopt.errors import ConfigError, suggest
from skillopt.messages import Finish, Message, Reply, Request, ToolCall, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.wires.http import HttpRefusal, Wire
from skillopt.redact.printable import clean_text

Form = Literal["schema", "json", "off"]
SETTINGS = ("auto", "schema", "json", "off")
_ABOUT_FORM = re.compile(
    r"response_?format|json_?(?:schema|object)|json"
    r" mode|structured|output_(?:config|format)|text\.format|schema|grammar|guided"
)
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_UNENFORCED = _BOUNDS | {"minLength", "maxLength", "maxItems", "uniqueItems"}
_NAME_LENGTH = 64


def _text_bytes(value: Any) -> int:
    """Bytes of all texts in a JSON value: no model writes more tokens than that."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return sum(map(_text_bytes, inner))


class Structure:
    """The form a model is asked in: the configured one, or for `auto` the best that was not refused."""

    def __init__(self, spec: ModelSpec, forms: Sequence[Form] = ("schema", "json", "off")) -> None:
        setting = spec.structured_output
        if setting not in SETTINGS:
            raise ConfigError(
                f"structured_output of {spec.provider}:{spec.name}: {setting!r} is no mode."
                f" {suggest(setting, SETTINGS)}"
            )
        if setting != "auto" and setting not in forms:
            known = ", ".join(("auto", *forms))
            raise ConfigError(
                f"structured_output of {spec.provider}:{spec.name}: this API has no {setting!r} mode. Use one"
                f" of {known}."
            )
        self._forms: tuple[Form, ...] = tuple(forms) if setting == "auto" else (setting,)  # type: ignore[assignment]
        self._at = 0
        self.is_auto = setting == "auto"

    def form(self, request: Request) -> Form:
        """How this request's schema is asked for now."""
        return "off" if request.schema is None else self._forms[self._at]

    def refused(self, form: Form, status: int, said: str) -> bool:
        """Hear that a request in this form was refused; step down if it is the form that was refused. True
        when the same request would now be asked in another form.
        """
        if status not in (400, 404, 415, 422, 501) or not _ABOUT_FORM.search(said.lower()):
            return False
        if form == self._forms[self._at] and self._at + 1 < len(self._forms):
            self._at += 1
        return form != self._forms[self._at] and form != "off"


class WireModel:
    """A model behind one path of a wire; each format says what its `body` is and how to `read` an answer."""

    def __init__(
        self, spec: ModelSpec, wire: Wire, path: str, structure: Structure, options: Iterable[str] = ()
    ) -> None:
        self._spec = spec
        self._wire = wire
        self._path = path
        self._structure = structure
        self.endpoint = wire.endpoint
        self.limits = wire.limits
        self.fingerprint: Mapping[str, Any] = spec.fingerprint(options)

    def open(self) -> None:
        """Load what the first call needs."""
        self._wire.open()

    async def complete(self, request: Request) -> Reply:
        """One attempt; see `Model`."""
        form, asked = self._structure.form(request), self.format_of(request)
        sent = asked.body(request, form)
        try:
            answer = await self._wire.post(asked._path, sent, request)
        except HttpRefusal as refusal:
            refusal.again |= self._structure.refused(form, refusal.status, refusal.body)
            refusal.again |= self._steps_down(refusal, sent)
            raise
        reply = asked.read(answer)
        if reply.tool_calls and not request.tools and not reply.text.strip():
            # A server's template, or a gateway's own tools: nothing was said that could be scored.
            names = ", ".join(sorted({repr(call.name) for call in reply.tool_calls}))
            raise self._wire.broken_off(
                reply.finish, reply.usage, f"it calls {names}, and no tool was offered"
            )
        return reply

    def format_of(self, request: Request) -> WireModel:
        """Whose body, path and reading fit this request: its own, unless it chooses among several."""
        return self

    def body(self, request: Request, form: Form = "off") -> dict[str, Any]:
        """Exactly what is sent: conversation, cap, the knobs that are set, and the form of the reply."""
        raise NotImplementedError

    def read(self, answer: Mapping[str, Any]) -> Reply:
        """The reply that an answer holds; raises `ModelError` where it holds none."""
        raise NotImplementedError

    def _reply(
        self,
        answer: Mapping[str, Any],
        text: str,
        finish: Finish,
        usage: Usage | None,
        calls: Iterable[ToolCall],
    ) -> Reply:
        is_counted = usage is not None and usage.input_tokens and usage.output_tokens
        return Reply(
            text=clean_text(text),
            finish=finish,
            usage=usage,
            tool_calls=tuple(
                ToolCall(
                    id=clean_text(call.id), name=clean_text(call.name), arguments=clean_text(call.arguments)
                )
                for call in calls
            ),
            model=clean_text(str(answer.get("model") or "")),
            size=None if is_counted else _text_bytes(answer),
        )

    def _check_images(self, message: Message) -> None:
        if message.images and message.role != "user":
            raise self._wire.error(
                "contract",
                f"a {message.role} message cannot carry images in this format, only a user message can",
            )

    def _steps_down(self, refusal: HttpRefusal, sent: Mapping[str, Any]) -> bool:
        """Whether the question is worth asking again, for another reason than its form."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()


def named_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema under a name, as the OpenAI APIs want one."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title") or "reply"))[:_NAME_LENGTH]
    return {"name": name, "schema": dict(schema), "strict": is_strict(schema)}


def is_strict(schema: Mapping[str, Any]) -> bool:
    """True when the schema keeps to OpenAI's strict mode: closed objects, every property required.

    Any other is sent without `strict`: required or nullable properties would ask for another reply.
    """
    return all(
        node.get("additionalProperties") is False
        and set(node.get("required", ())) == set(node.get("properties", {}))
        for node in _nodes(schema)
        if node.get("type") == "object"
    ) and not any(
        _says_anything(node) or "default" in node or _UNENFORCED & node.keys() for node in _nodes(schema)
    )


def closed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with every object closed, or None where it allows anything at all.

    It is narrower: whatever fits it fits the original. Bounds on numbers and lengths are left out, as
    constrained decoding does not know them; the reader of the reply checks them.
    """
    if any(_says_anything(node) for node in _nodes(schema)):
        return None
    return _closed(schema)


def _closed(node: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in _UNENFORCED or (key == "minItems" and value > 1):
            continue
        if key in ("properties", "$defs"):
            made[key] = {name: _closed(one) for name, one in value.items()}
        elif key == "items":
            made[key] = _closed(value)
        elif key in ("anyOf", "allOf", "oneOf"):
            made["anyOf" if key == "oneOf" else key] = [_closed(one) for one in value]
        else:
            made[key] = value
    if node.get("type") == "object":
        made["additionalProperties"] = False
    return made


def _nodes(node: Any) -> list[Mapping[str, Any]]:
    """Every schema inside a schema, itself included; names of properties are not taken for keywords."""
    if not isinstance(node, Mapping):
        return []
    found = [node]
    for key, value in node.items():
        if key in ("properties", "$defs"):
            inner = list(value.values())
        elif key in ("anyOf", "allOf", "oneOf"):
            inner = list(value)
        else:
            inner = [value] if key in ("items", "additionalProperties") else []
        for one in inner:
            found += _nodes(one)
    return found


def _says_anything(node: Mapping[str, Any]) -> bool:
    """True for a schema that allows any value, any item or any property."""
    if not node.keys() & {"type", "enum", "const", "anyOf", "allOf", "oneOf", "$ref"}:
        return True
    if node.get("type") == "array":
        return "items" not in node
    return node.get("type") == "object" and (
        not node.get("properties") or isinstance(node.get("additionalProperties"), Mapping)
    )
