"""The Anthropic Messages API: how a request becomes a body and an answer a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from skillopt.errors import ConfigError, ModelError, suggest
from skillopt.messages import Finish, Image, Message, Reply, Request, ToolCall, Usage
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.http import Wire, count
from skillopt.models.wires.structured import Form, Structure, WireModel, closed
from skillopt.money import by_address

BASE_URL = "https://api.anthropic.com"
_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}


EFFORTS = ("none", "low", "medium", "high", "xhigh", "max")
# Models up to Claude 4.5 think within a budget they are given; later ones decide for themselves how much
# (`adaptive`) and take an effort.
_BUDGETED = re.compile(
    r"claude-(?:3-7-sonnet|(?:opus|sonnet)-4(?:-[015])?|haiku-4-5)(?=$|-20\d\d|-latest|-v\d|@)"
)
_SHARE = {"low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.9, "max": 0.95}
"""Of the output cap, which holds thinking and answer together."""
_LEAST_BUDGET = 1024
_CACHED: Mapping[str, Any] = {"type": "ephemeral"}


class AnthropicModel(WireModel):
    """A model behind `POST /v1/messages`."""

    def __init__(self, spec: ModelSpec) -> None:
        # The API's path starts with /v1, and people give base URLs with and without it.
        wire = Wire(
            spec,
            base_url=(spec.base_url or BASE_URL).rstrip("/").removesuffix("/v1"),
            key_header="x-api-key",
            headers={"anthropic-version": "2023-06-01"},
        )
        super().__init__(spec, wire, "/v1/messages", Structure(spec, ("schema", "off")))

    def read(self, answer: Mapping[str, Any]) -> Reply:
        blocks = answer.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise self._wire.malformed("it has no content")
        texts: list[str] = []
        calls: list[ToolCall] = []
        for block in blocks:
            if block.get("type") == "text":
                if not isinstance(block.get("text"), str):
                    raise self._wire.malformed("a text block in it has no text")
                texts.append(block["text"])
            elif block.get("type") == "tool_use":
                if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
                    raise self._wire.malformed("a tool call in it has no id or name")
                calls.append(
                    ToolCall(id=block["id"], name=block["name"], arguments=json.dumps(block.get("input", {})))
                )
        usage, reason = _usage(answer.get("usage")), answer.get("stop_reason")
        finish = _FINISH.get(str(reason))
        if finish is None or (finish == "tool_calls" and not calls):
            raise self._wire.broken_off(reason, usage)
        return self._reply(answer, "".join(texts), finish, usage, calls)

    def body(self, request: Request, form: Form = "off") -> dict[str, Any]:
        spec = self._spec
        body: dict[str, Any] = {
            "model": spec.name,
            "max_tokens": request.max_tokens,
            "messages": self._turns(request.messages),
            **spec.sampling("temperature", "top_p"),
        }
        system = [one.content for one in request.messages if one.role == "system" and one.content]
        if system:
            # The part that all questions of a stage share; one too short for the cache is taken as it is.
            body["system"] = [{"type": "text", "text": "\n\n".join(system), "cache_control": dict(_CACHED)}]
        if any(message.role == "tool" for message in request.messages):
            # marks the last block: the next turn of this conversation starts with all of it
            body["cache_control"] = dict(_CACHED)
        output = self._think(body, request)
        if form == "schema" and (schema := self._schema(request)) is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        if output:
            body["output_config"] = output
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
                for tool in request.tools
            ]
        return body

    def _think(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        """Put thinking into the body as the effort says; returns what of it belongs into `output_config`."""
        effort = self._spec.reasoning_effort
        if effort is None:
            return {}
        if effort == "none":
            body["thinking"] = {"type": "disabled"}
            return {}
        if _BUDGETED.search(self._spec.name) is None:
            body["thinking"] = {"type": "adaptive"}
            return {"effort": effort}
        # With tools these models want their own thinking back in the next turn, which our messages do not
        # carry: they do not think then.
        if not request.tools:
            budget = max(_LEAST_BUDGET, int(request.max_tokens * _SHARE[effort]))
            if budget >= request.max_tokens:
                raise self._wire.error(
                    "contract",
                    f"thinking takes at least {_LEAST_BUDGET} tokens and the output cap is"
                    f" {request.max_tokens}: raise the cap (max_completion_tokens) or unset reasoning_effort",
                    refused=True,
                )
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        return {}

    def _schema(self, request: Request) -> dict[str, Any] | None:
        """The request's schema as this API takes one; under `auto` any other is left to the prompt."""
        schema = closed(request.schema or {})
        if schema is None and not self._structure.is_auto:
            raise self._wire.error(
                "contract",
                "the reply's schema allows any value somewhere, which this API cannot enforce: set"
                " structured_output to auto or off",
                refused=True,
            )
        return schema

    def _turns(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """User and assistant turns that alternate: neighbours are joined, empty messages left out."""
        turns: list[tuple[str, list[dict[str, Any]]]] = []
        for message in messages:
            if message.role == "system":
                continue
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            if blocks and turns and turns[-1][0] == role:
                turns[-1][1].extend(blocks)
            elif blocks:
                turns.append((role, blocks))
        return [{"role": role, "content": _shortest(blocks)} for role, blocks in turns]

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        # The API refuses an empty text block.
        said: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
        said += [_image(image) for image in message.images]
        if message.role == "tool":
            return [
                {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": _shortest(said)}
            ]
        return said + [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": self._arguments(call)}
            for call in message.tool_calls
        ]

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise self._wire.error(
                "contract", f"the arguments of the earlier tool call {call.name!r} are no JSON object"
            )
        return arguments


def build(spec: ModelSpec) -> Model:
    """A model of the Anthropic API, which has no seed."""
    if spec.seed is not None:
        raise ConfigError(f"anthropic:{spec.name}: the Anthropic API has no seed. Unset it.")
    if spec.reasoning_effort is not None and spec.reasoning_effort not in EFFORTS:
        raise ConfigError(
            f"anthropic:{spec.name}: no reasoning effort {spec.reasoning_effort!r} in the Anthropic API. "
            f"{suggest(spec.reasoning_effort, EFFORTS)}"
        )
    return AnthropicModel(spec)


def thinks_by_cap(spec: ModelSpec) -> bool:
    """Whether how long it may think is a share of the output cap."""
    effort = spec.reasoning_effort
    return effort not in (None, "none") and _BUDGETED.search(spec.name) is not None


PLUGIN = Provider(
    open=build,
    urls=(BASE_URL, f"{BASE_URL}/v1"),
    fixes_cap=thinks_by_cap,
    needs_key=True,
    default_model="claude-sonnet-4-6",
    price=by_address("https://api.anthropic.com"),
)


def _image(image: Image) -> dict[str, Any]:
    if image.detail is not None:
        raise ModelError(
            "contract",
            f"this API cannot be asked to look at an image in {image.detail} detail; leave the detail on"
            " auto",
        )
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _shortest(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One text is written as a string, which the API takes as one text block."""
    if not blocks:
        return ""
    return str(blocks[0]["text"]) if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _usage(usage: Any) -> Usage | None:
    """`input_tokens` of this API leaves out the prompt cache; ours is everything the model read."""
    if not isinstance(usage, dict):
        return None
    uncached, output = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if uncached is None or output is None:
        return None
    read, written = (count(usage.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=uncached + (read or 0) + (written or 0),
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    )
