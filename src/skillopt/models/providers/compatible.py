"""Any server that speaks Chat Completions (vLLM, Ollama, llama.cpp, a vendor's own): `compatible:name@http://host/v1`."""

from __future__ import annotations

from skillopt.errors import ConfigError
from skillopt.models.port import Model, ModelSpec
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire, require_known_options


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A model behind the given base URL. Without a key no Authorization header is sent."""
    require_known_options(spec)
    if spec.base_url is None:
        raise ConfigError(
            f"compatible:{spec.name} needs an address. Write compatible:{spec.name}@http://host/v1 or set the"
            " base URL."
        )
    return ChatModel(spec, Wire(spec, base_url=spec.base_url), cap_field="max_tokens")
