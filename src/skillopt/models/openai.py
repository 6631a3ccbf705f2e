"""The OpenAI API: Chat Completions at api.openai.com, or at the base URL given."""

from __future__ import annotations

from skillopt.models._chat import ChatModel
from skillopt.models._model import Model, ModelSpec
from skillopt.models._wire import require_key, require_known_options

BASE_URL = "https://api.openai.com/v1"


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A model of the OpenAI API. Needs a key."""
    require_known_options(spec)
    require_key(spec, "OPENAI_API_KEY")
    return ChatModel(spec, base_url=spec.base_url or BASE_URL, cap_field="max_completion_tokens")
