"""The Chat Completions wire format: how a request becomes a body and an answer a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from skillopt.messages import Finish, Image, Message, Reply, Request, ToolCall
from skillopt.models.port import DEFAULT_MAX_TOKENS, ModelSpec
from skillopt.models.wires.http import HttpRefusal, Wire, usage_of
from skillopt.models.wires.structured import Form, Structure, WireModel, named_schema

CapField = Literal["max_tokens", "max_completion_tokens"]
# Every way in which a server that speaks Chat Completions is known to end an answer. Together says `eos`, TGI
# `eos_token` and `stop_sequence`, Mistral `model_length`, Zhipu `sensitive`. All else (`error`, vLLM's
# `abort`, DeepSeek's `insufficient_system_resource`, null, a word nobody documents) ends no answer.
_FINISH: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("content_filter", "refusal", "sensitive", "safety"), "refusal"),
}


class ChatModel(WireModel):
    """A model behind `POST .../chat/completions`.

    `cap_field` is the name this vendor gives the output cap, `extra` what it wants in every body besides, and
    `thinks_in_text` says that its thinking may come inside the text, between `<think>` and `</think>`. A
    `lenient` model stands for servers of many kinds: a cap that nobody asked for is not sent, and a field
    that the server refuses by name is left out from then on.
    """

    def __init__(
        self,
        spec: ModelSpec,
        wire: Wire,
        *,
        cap_field: CapField,
        path: str = "/chat/completions",
        structure: Structure | None = None,
        extra: Mapping[str, Any] | None = None,
        thinks_in_text: bool = False,
        options: Iterable[str] = (),
        lenient: bool = False,
    ) -> None:
        super().__init__(spec, wire, path, structure or Structure(spec), options)
        self._cap_field = cap_field
        self._extra = dict(extra or {})
        self._thinks_in_text = thinks_in_text
        self._lenient = lenient
        self._left_out: set[str] = set()

    def read(self, answer: Mapping[str, Any]) -> Reply:
        self.check(answer)
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
        text = self._text(message.get("content"), needed=not calls and not is_refusal)
        if self._thinks_in_text:
            text = without_thinking(text)
        usage = usage_of(answer.get("usage"), "prompt", "completion")
        wrong, reason = choices[0].get("error"), self.ending(answer)
        finish = finish_of(reason)
        if finish is None or wrong or (finish == "tool_calls" and not calls and not text):
            raise self._wire.broken_off(reason, usage, wrong)
        if is_refusal:
            finish, text = "refusal", text or str(refusal)
        elif calls and finish == "stop":
            finish = "tool_calls"  # some compatible servers end a tool call with "stop"
        return self._reply(answer, text, finish, usage, calls)

    def check(self, answer: Mapping[str, Any]) -> None:
        """Raise what this vendor reports inside a success status; most report nothing there."""

    def ending(self, answer: Mapping[str, Any]) -> Any:
        """What this vendor gives as the reason why the answer ended."""
        return answer["choices"][0].get("finish_reason")

    def body(self, request: Request, form: Form = "off") -> dict[str, Any]:
        # The cap and what is set besides, without what the server refused.
        knobs = {self._cap_field: request.max_tokens, **self._spec.sampling(), **self._extra}
        if self._lenient and self._spec.cap is None and request.max_tokens >= DEFAULT_MAX_TOKENS:
            del knobs[self._cap_field]
        body: dict[str, Any] = {
            "model": self._spec.name,
            "messages": [self._message(message) for message in request.messages],
            **{name: value for name, value in knobs.items() if name not in self._left_out},
        }
        if request.tools:
            body["tools"] = tools_on_offer(request)
        if form == "schema" and request.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": named_schema(request.schema)}
        elif form == "json":
            body["response_format"] = {"type": "json_object"}
        return body

    def _steps_down(self, refusal: HttpRefusal, sent: Mapping[str, Any]) -> bool:
        """Leave a field out from now on that a server refused by its name; what the field stands for stays as
        the server has it. True where the question is worth asking again without it.
        """
        if not self._lenient or refusal.status not in (400, 422):
            return False
        for name in sorted({self._cap_field, *self._spec.sampling(), *self._extra} & sent.keys()):
            inner = self._extra.get(name)
            words = (name, *inner) if isinstance(inner, Mapping) else (name,)
            if any(re.search(rf"\b{re.escape(word)}\b", refusal.body) for word in words):
                if name not in self._left_out:
                    self._left_out.add(name)
                    shown = f"{self._spec.provider}:{self._spec.name}"
                    self._spec.remark(f"{shown} refuses the field {name!r}; it is no longer sent.")
                return True
        return False

    def _message(self, message: Message) -> dict[str, Any]:
        self._check_images(message)
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.images:
            images = [{"type": "image_url", "image_url": _image_url(image)} for image in message.images]
            text = [{"type": "text", "text": message.content}] if message.content else []
            wire["content"] = [*text, *images]
        if message.tool_calls:
            wire["content"] = message.content or None
            wire["tool_calls"] = calls_made(message)
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        return wire

    def _text(self, content: Any, *, needed: bool) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            texts = [part.get("text") for part in content if part.get("type") == "text"]
            if all(isinstance(text, str) for text in texts) and (texts or not needed):
                return "".join(texts)
        raise self._wire.malformed("its content is no text")

    def _tool_calls(self, message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, dict) else None
            if (
                not isinstance(function, dict)
                or not isinstance(function.get("name"), str)
                or not isinstance(call.get("id"), str)
            ):
                raise self._wire.malformed("a tool call in it has no id or name")
            arguments = function.get("arguments") or ""
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            calls.append(ToolCall(id=call["id"], name=function["name"], arguments=arguments))
        return tuple(calls)


def finish_of(reason: Any) -> Finish | None:
    """Why an answer ended; None where that is no end of an answer."""
    return _FINISH.get(reason) if isinstance(reason, str) else None


def tools_on_offer(request: Request) -> list[dict[str, Any]]:
    """The tools of a request as Chat Completions writes them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]


def calls_made(message: Message) -> list[dict[str, Any]]:
    """The tool calls of a turn as Chat Completions writes them."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]


def _image_url(image: Image) -> dict[str, str]:
    url = {"url": f"data:{image.media_type};base64,{image.data}"}
    return url if image.detail is None else {**url, "detail": image.detail}


def without_thinking(text: str) -> str:
    """The text after a model's thinking; a reply cut inside its thinking has said nothing.

    Newer templates put the opening tag into the prompt, so a closing one without it ends the thinking too.
    """
    thought, end, said = text.partition("</think>")
    if (
        end
        and thought.count("<think>") <= 1
        and (text.lstrip().startswith("<think>") or "<think>" not in thought)
    ):
        return said.lstrip()
    return "" if text.lstrip().startswith("<think>") and not end else text
