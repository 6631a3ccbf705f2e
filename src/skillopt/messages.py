"""The narrow waist: what every model is asked and what every model answers, whatever its wire format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Speaker = Literal["system", "user", "assistant", "tool"]
Role = Literal["target", "optimizer", "judge"]
Finish = Literal["stop", "length", "tool_calls", "refusal", "turns"]
"""Why an answer ended. `turns` is an agent that used up the turns it had. Whatever else a provider gives as
the reason is not the end of an answer but of the measurement.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call the model asks for; `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(
        cls, name: str, description: str, required: Sequence[str], **properties: str | Mapping[str, Any]
    ) -> Tool:
        """A tool that takes these properties and no other: a text that is described in words, or a schema."""
        schemas = {
            name: {"type": "string", "description": given} if isinstance(given, str) else given
            for name, given in properties.items()
        }
        whole = {"type": "object", "properties": schemas, "required": list(required)}
        return cls(name=name, description=description, parameters=whole | {"additionalProperties": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image by its bytes, base64 encoded, with its media type."""

    media_type: str
    data: str
    detail: str | None = None
    """`low` or `high` for providers that look more or less closely; unset sends nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Speaker
    content: str
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider counted them; `None` is unknown, never zero."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    """Input that was read from the provider's prompt cache."""
    cache_write_tokens: int | None = None
    """Input that was written to it, where the provider charges for that."""
    reasoning_tokens: int | None = None

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def credible(self, *, said_something: bool) -> bool:
        """Whether the report can be true: no prompt is empty, and what was said took tokens. Servers that do
        not count report zeros, which would let a budget be overspent.
        """
        return self.input_tokens > 0 and self.output_tokens >= (1 if said_something else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a model.

    `role`, `stage`, `place` and `draw` say who asks and where in the run; they are part of the record's key
    and never of the wire body.
    `place` is unique per question of a run; `draw` numbers independent samples of the same question.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    role: Role
    stage: str
    place: str
    draw: int = 0
    tools: tuple[Tool, ...] = ()
    schema: Mapping[str, Any] | None = None
    background: bool = False
    """True for work that only fills idle slots; changes when a call is sent, never what is sent."""
    hedge: bool = False
    """True for the second asking of a slow call: sent once, and counted apart in the ledger."""

    @property
    def kind(self) -> str:
        """Alike for replies that take about as long: of an optimizer's stage, or of another role."""
        return self.stage if self.role == "optimizer" else self.role


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered. `usage` is `None` when the provider reported none."""

    text: str
    finish: Finish
    usage: Usage | None
    tool_calls: tuple[ToolCall, ...] = field(default=())
    model: str = ""
    """The model name the provider says answered."""
    seconds: float | None = None
    """How long the attempt that answered took, once sent; None where nobody measured."""
    size: int | None = None
    """Bytes of all text in the answer, visible thinking included, where no usage came with it."""


def as_plain(value: Any) -> Any:
    """The `default` of `json.dumps` for these values: as `dataclasses.asdict`, without copying everything."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(one.name for one in fields(value))
    return {name: getattr(value, name) for name in _NAMES[kind]}


_NAMES: dict[type, tuple[str, ...]] = {}
