"""The Responses wire format. Stateless: the whole conversation is sent each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.messages import Finish, Message, Reply, Request, ToolCall, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.wires.http import Wire, usage_of
from skillopt.models.wires.structured import Form, Structure, WireModel, named_schema

_INCOMPLETE: Mapping[str, Finish] = {"max_output_tokens": "length", "content_filter": "refusal"}


class ResponsesModel(WireModel):
    """A model behind `POST .../responses`, beside Chat Completions over the same wire."""

    def __init__(self, spec: ModelSpec, wire: Wire, *, structure: Structure) -> None:
        super().__init__(spec, wire, "/responses", structure)

    def read(self, answer: Mapping[str, Any]) -> Reply:
        output = answer.get("output")
        if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
            raise self._wire.malformed("it has no output")
        texts, refusals, calls = self._parts(output)
        usage = usage_of(answer.get("usage"), "input", "output")
        finish = self._finish(answer, usage, refused=bool(refusals), called=bool(calls))
        return self._reply(answer, "".join(texts) or "".join(refusals), finish, usage, calls)

    def body(self, request: Request, form: Form = "off") -> dict[str, Any]:
        spec = self._spec
        # Chat Completions keeps nothing on the server unless asked to; `store` makes Responses alike.
        body: dict[str, Any] = {
            "model": spec.name,
            "input": self._items(request.messages),
            "max_output_tokens": request.max_tokens,
            "store": False,
            **spec.sampling("temperature", "top_p"),
        }
        if spec.reasoning_effort is not None:
            body["reasoning"] = {"effort": spec.reasoning_effort}
        if request.tools:
            # Strict is this API's default, and would refuse a tool whose schema has an optional parameter.
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                    "strict": False,
                }
                for tool in request.tools
            ]
        if form == "schema" and request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **named_schema(request.schema)}}
        elif form == "json":
            body["text"] = {"format": {"type": "json_object"}}
        return body

    def _items(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for message in messages:
            self._check_images(message)
            if message.role == "tool":
                items.append(
                    {
                        "type": "function_call_output",
                        "call_id": message.tool_call_id or "",
                        "output": message.content,
                    }
                )
                continue
            if message.images:
                text = [{"type": "input_text", "text": message.content}] if message.content else []
                images = [
                    {
                        "type": "input_image",
                        "image_url": f"data:{image.media_type};base64,{image.data}",
                        "detail": image.detail or "auto",
                    }
                    for image in message.images
                ]
                items.append({"role": message.role, "content": [*text, *images]})
            elif message.content or not message.tool_calls:
                items.append({"role": message.role, "content": message.content})
            # Without the id of the output item the API does not ask for the reasoning item before it.
            items += [
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
                for call in message.tool_calls
            ]
        return items

    def _parts(self, output: list[dict[str, Any]]) -> tuple[list[str], list[str], list[ToolCall]]:
        texts: list[str] = []
        refusals: list[str] = []
        calls: list[ToolCall] = []
        for item in output:
            if item.get("type") == "message":
                content = item.get("content")
                if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
                    raise self._wire.malformed("a message in it has no content")
                for part in content:
                    field, found = ("refusal", refusals) if part.get("type") == "refusal" else ("text", texts)
                    if not isinstance(part.get(field), str):
                        raise self._wire.malformed("a part of a message in it has no text")
                    found.append(part[field])
            elif item.get("type") == "function_call":
                if not all(isinstance(item.get(field), str) for field in ("call_id", "name", "arguments")):
                    raise self._wire.malformed("a tool call in it has no id, name or arguments")
                calls.append(ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"]))
        return texts, refusals, calls

    def _finish(
        self, answer: Mapping[str, Any], usage: Usage | None, *, refused: bool, called: bool
    ) -> Finish:
        status = answer.get("status")
        if status == "incomplete":
            details = answer.get("incomplete_details")
            reason = details.get("reason") if isinstance(details, dict) else None
            finish = _INCOMPLETE.get(str(reason))
            if finish is None:
                raise self._wire.broken_off(reason, usage)
            return finish
        if status != "completed":  # failed, cancelled, queued, in_progress
            raise self._wire.broken_off(status, usage)
        if refused:
            return "refusal"
        return "tool_calls" if called else "stop"
