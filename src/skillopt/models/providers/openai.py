"""The OpenAI API: Chat Completions and Responses at api.openai.com, or at the base URL given."""

from __future__ import annotations

from typing import cast, get_args

from skillopt.errors import ConfigError, suggest
from skillopt.models.port import Model, ModelSpec
from skillopt.models.providers._openai import Api, OpenAIModel
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire, require_key, require_known_options
from skillopt.models.wires.responses import ResponsesModel
from skillopt.models.wires.structured import Structure

BASE_URL = "https://api.openai.com/v1"


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A model of the OpenAI API. Needs a key; option `api` is `auto`, `chat` or `responses`."""
    require_known_options(spec, ["api"])
    require_key(spec, "OPENAI_API_KEY")
    api = spec.options.get("api") or "auto"
    if api not in get_args(Api):
        raise ConfigError(f"openai:{spec.name}: there is no API {api!r}. {suggest(str(api), get_args(Api))}")
    wire = Wire(spec, base_url=spec.base_url or BASE_URL)
    structure = Structure(spec)
    chosen = [] if api == "auto" else ["api"]
    return OpenAIModel(
        spec,
        ChatModel(spec, wire, cap_field="max_completion_tokens", structure=structure, options=chosen),
        ResponsesModel(spec, wire, structure=structure),
        api=cast(Api, api),
    )
