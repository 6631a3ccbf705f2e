"""Azure OpenAI in the auth mode `openai_compatible`: the endpoint is the base URL and the deployment is the model."""

from __future__ import annotations

from skillopt.errors import ConfigError
from skillopt.models._chat import ChatModel
from skillopt.models._model import Model, ModelSpec
from skillopt.models._wire import require_key, require_known_options

AUTH_MODE = "openai_compatible"


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A deployment behind `AZURE_OPENAI_ENDPOINT`. Option `auth_mode` must say `openai_compatible`."""
    require_known_options(spec, ["auth_mode"])
    mode = spec.options.get("auth_mode")
    if mode != AUTH_MODE:
        said = "is not set" if mode is None else f"{mode!r} is not supported yet"
        raise ConfigError(f"azure:{spec.name}: the auth mode {said}. Set AZURE_OPENAI_AUTH_MODE={AUTH_MODE}, the only one so far.")
    if spec.base_url is None:
        raise ConfigError(f"azure:{spec.name} needs an endpoint. Set AZURE_OPENAI_ENDPOINT.")
    require_key(spec, "AZURE_OPENAI_API_KEY")
    return ChatModel(spec, base_url=spec.base_url, cap_field="max_completion_tokens")
