"""Google Gemini through its OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from typing import Any

from skillopt.messages import Message
from skillopt.models.port import Model, ModelSpec
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire, require_key, require_known_options

BASE_URL = "https://generativelanguage.googleapis.com/v1beta/openai"
# ai.google.dev/gemini-api/docs/thought-signatures: from Gemini 3 on a tool call comes back with its signature
# or with this word, which stands for a history that does not have it. Our messages carry no signatures.
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_WANTS_SIGNATURES = re.compile(r"gemini-(?:[3-9]|\d\d)")


class GeminiModel(ChatModel):
    """A Gemini model."""

    def _message(self, message: Message) -> dict[str, Any]:
        wire = super()._message(message)
        if message.tool_calls and _WANTS_SIGNATURES.search(self._spec.name):
            wire["tool_calls"][0]["extra_content"] = _UNSIGNED  # only the first of parallel calls is signed
        return wire


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A Gemini model. Needs a key. `reasoning_effort` sets the thinking level, `none` turns thinking off
    where the model allows it.
    """
    require_known_options(spec)
    require_key(spec, "GEMINI_API_KEY")
    wire = Wire(spec, base_url=(spec.base_url or BASE_URL).rstrip("/"))
    return GeminiModel(spec, wire, cap_field="max_tokens")
