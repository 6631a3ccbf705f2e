"""Qwen models on a vLLM server of yours: Chat Completions, with thinking on, off, or as the server has it."""

from __future__ import annotations

from typing import Any

from skillopt.errors import ConfigError
from skillopt.models.port import Model, ModelSpec
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire, require_known_options

BASE_URL = "http://localhost:8000/v1"
OPTIONS = ("enable_thinking", "use_max_completion_tokens")


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A Qwen model at the base URL, by default a server on this machine. The key is optional.

    Option `enable_thinking`: True or False is handed to the chat template, None leaves the server's default
    and sends nothing. Option `use_max_completion_tokens`: the newer name of the output cap, for servers that
    want it.
    """
    require_known_options(spec, OPTIONS)
    for name in OPTIONS:
        if spec.options.get(name) not in (None, True, False):
            raise ConfigError(
                f"qwen:{spec.name}: {name} must be true or false, or unset, got {spec.options[name]!r}."
            )
    thinking = spec.options.get("enable_thinking")
    extra: dict[str, Any] = (
        {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    )
    return ChatModel(
        spec,
        Wire(spec, base_url=spec.base_url or BASE_URL),
        cap_field="max_completion_tokens" if spec.options.get("use_max_completion_tokens") else "max_tokens",
        extra=extra,
        thinks_in_text=True,  # without a reasoning parser the server leaves the thinking in the text
        options=["enable_thinking"],
    )
