"""The Chat Completions wire format: how a request becomes a body and an answer a reply, for every provider that speaks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from skillopt.messages import Finish, Message, Reply, Request, ToolCall, Usage
from skillopt.models._model import ModelSpec
from skillopt.models._wire import Wire, clean_text, count, fingerprint

CapField = Literal["max_tokens", "max_completion_tokens"]
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "refusal": "refusal",
}


class ChatModel:
    """A model behind `POST /chat/completions`. `cap_field` is the name this vendor gives the output cap."""

    def __init__(self, spec: ModelSpec, *, base_url: str, cap_field: CapField) -> None:
        self._spec = spec
        self._cap_field = cap_field
        self._wire = Wire(spec, sdk="openai", base_url=base_url)
        self.endpoint = self._wire.endpoint
        self.fingerprint: Mapping[str, Any] = fingerprint(spec)

    async def complete(self, request: Request) -> Reply:
        """One attempt; see `Model`."""
        answer = await self._wire.post("/chat/completions", self.body(request), request)
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self._wire.malformed("it has no choices")
        message = choices[0].get("message")
        if not isinstance(message, dict):
            raise self._wire.malformed("its choice has no message")
        calls = self._tool_calls(message)
        refusal = message.get("refusal")
        is_refusal = isinstance(refusal, str) and bool(refusal)
        if "content" not in message and not calls and not is_refusal:
            raise self._wire.malformed("its message has no content")
        text = self._text(message.get("content"))
        finish = _FINISH.get(str(choices[0].get("finish_reason")), "other")
        if is_refusal:
            finish, text = "refusal", text or str(refusal)
        elif calls and finish == "stop":
            finish = "tool_calls"  # some compatible servers end a tool call with "stop"
        return Reply(
            text=clean_text(text),
            finish=finish,
            usage=_usage(answer.get("usage")),
            tool_calls=calls,
            model=str(answer.get("model") or ""),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    def body(self, request: Request) -> dict[str, Any]:
        """Exactly what is sent: the conversation, the cap, and the knobs that are set."""
        body: dict[str, Any] = {
            "model": self._spec.name,
            "messages": [self._message(message) for message in request.messages],
            self._cap_field: request.max_tokens,
            **self._spec.sampling(),
        }
        if request.tools:
            body["tools"] = [
                {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}}
                for tool in request.tools
            ]
        return body

    def _message(self, message: Message) -> dict[str, Any]:
        if message.images and message.role != "user":
            raise self._wire.error("contract", f"a {message.role} message cannot carry images in this format, only a user message can")
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.images:
            images = [
                {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}} for image in message.images
            ]
            text = [{"type": "text", "text": message.content}] if message.content else []
            wire["content"] = [*text, *images]
        if message.tool_calls:
            wire["content"] = message.content or None
            wire["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        return wire

    def _text(self, content: Any) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            texts = [part.get("text") for part in content if part.get("type") == "text"]
            if all(isinstance(text, str) for text in texts):
                return "".join(texts)
        raise self._wire.malformed("its content is no text")

    def _tool_calls(self, message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not isinstance(call.get("id"), str):
                raise self._wire.malformed("a tool call in it has no id or name")
            arguments = function.get("arguments") or ""
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            calls.append(ToolCall(id=call["id"], name=function["name"], arguments=clean_text(arguments)))
        return tuple(calls)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    prompt_details = usage.get("prompt_tokens_details")
    completion_details = usage.get("completion_tokens_details")
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=count(prompt_details.get("cached_tokens")) if isinstance(prompt_details, dict) else None,
        reasoning_tokens=count(completion_details.get("reasoning_tokens")) if isinstance(completion_details, dict) else None,
    )
