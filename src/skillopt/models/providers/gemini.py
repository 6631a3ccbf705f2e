"""Google Gemini through its OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from typing import Any

from skillopt.messages import Message
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire

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


def build(spec: ModelSpec) -> Model:
    """A Gemini model. `reasoning_effort` sets the thinking level, `none` turns it off where it can be."""
    wire = Wire(spec, base_url=(spec.base_url or BASE_URL).rstrip("/"))
    return GeminiModel(spec, wire, cap_field="max_tokens")


PLUGIN = Provider(open=build, urls=(BASE_URL,), needs_key=True)
