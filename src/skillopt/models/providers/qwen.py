"""Qwen models on a vLLM server of yours: Chat Completions, with thinking on, off, or as the server has it."""

from __future__ import annotations

from pydantic import Field

from skillopt.config.service import Options
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire

BASE_URL = "http://localhost:8000/v1"


class QwenOptions(Options):
    """Options of a Qwen server."""

    enable_thinking: bool | None = Field(default=None, description="Thinking on or off; unset sends nothing.")
    use_max_completion_tokens: bool | None = Field(
        default=None, description="Send the cap as max_completion_tokens instead of max_tokens."
    )


def build(spec: ModelSpec) -> Model:
    """A Qwen model at the base URL, by default a server on this machine.

    `enable_thinking` is handed to the chat template; unset leaves the server's default.
    """
    thinking = spec.options.get("enable_thinking")
    extra = {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    return ChatModel(
        spec,
        Wire(spec, base_url=spec.base_url or BASE_URL),
        cap_field="max_completion_tokens" if spec.options.get("use_max_completion_tokens") else "max_tokens",
        extra=extra,
        thinks_in_text=True,  # without a reasoning parser the server leaves the thinking in the text
        options=["enable_thinking"],
        lenient=True,
    )


PLUGIN = Provider(
    open=build,
    urls=(BASE_URL,),
    takes_common_effort=False,
    Options=QwenOptions,
    routing=frozenset({"use_max_completion_tokens"}),
    default_model="Qwen/Qwen3.5-4B",
)
