"""Any server that speaks Chat Completions (vLLM, Ollama, llama.cpp, a vendor's own): `compatible:name@http://host/v1`."""

from __future__ import annotations

from skillopt.errors import ConfigError
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire
from skillopt.money import by_address


def build(spec: ModelSpec) -> Model:
    """A model behind the given base URL. Without a key no Authorization header is sent."""
    if spec.base_url is None:
        raise ConfigError(
            f"compatible:{spec.name} needs an address. Write compatible:{spec.name}@http://host/v1 or set the"
            " base URL."
        )
    return ChatModel(spec, Wire(spec, base_url=spec.base_url), cap_field="max_tokens", lenient=True)


PLUGIN = Provider(
    open=build,
    takes_common_effort=False,
    needs_key=True,
    may_lack_key=True,
    needs_url=True,
    price=by_address(None),
)
