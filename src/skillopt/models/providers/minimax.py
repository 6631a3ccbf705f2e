"""MiniMax: Chat Completions in two regions, and errors that come with a success status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from skillopt.config.service import Options
from skillopt.errors import ConfigError, Kind
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire
from skillopt.models.wires.structured import Form, Structure

REGIONS = {"global_en": "https://api.minimax.io/v1", "cn_zh": "https://api.minimaxi.com/v1"}
# platform.minimax.io/docs/api-reference/errorcode: these arrive as `base_resp.status_code` under HTTP 200.
_KINDS: Mapping[int, Kind] = {
    1001: "timeout",
    1002: "rate_limit",
    1004: "auth",
    1008: "auth",  # out of credit: does not pass by waiting
    1039: "rate_limit",
    1041: "rate_limit",
    1042: "contract",
    2013: "contract",
    2049: "auth",
    2056: "rate_limit",
}
_SENSITIVE = (1026, 1027)
"""The model's own service declines input or output: a refusal, if there is a reply at all."""


class MiniMaxModel(ChatModel):
    """A MiniMax model."""

    def ending(self, answer: Mapping[str, Any]) -> Any:
        """What was declined as sensitive is a refusal, whatever the choice says."""
        told = answer.get("base_resp")
        is_declined = isinstance(told, dict) and told.get("status_code") in _SENSITIVE
        return "content_filter" if is_declined else super().ending(answer)

    def check(self, answer: Mapping[str, Any]) -> None:
        """Raise the error that `base_resp` reports."""
        told = answer.get("base_resp")
        if not isinstance(told, dict):
            return
        code = told.get("status_code")
        if not isinstance(code, int) or code == 0 or (code in _SENSITIVE and answer.get("choices")):
            return
        kind: Kind = "contract" if code in _SENSITIVE else _KINDS.get(code, "unavailable")
        raise self._wire.error(
            kind, f"error {code}: {told.get('status_msg') or 'without a message'}", refused=True
        )


class MiniMaxOptions(Options):
    """Options of the MiniMax API."""

    region: Literal["global_en", "cn_zh"] | None = Field(
        default=None, description="Which of its two endpoints; unset means global_en."
    )
    enable_thinking: bool | None = Field(default=None, description="Thinking on or off; unset sends nothing.")


def build(spec: ModelSpec) -> Model:
    """A MiniMax model.

    Their API documents no seed, effort or schema mode: the first two are refused, `auto` asks by the prompt.
    """
    for knob in ("seed", "reasoning_effort"):
        if getattr(spec, knob) is not None:
            raise ConfigError(
                f"minimax:{spec.name}: the MiniMax API has no {knob}. Unset it (thinking: enable_thinking)."
            )
    # Thinking is kept out of the text; what the model says is the answer alone.
    extra: dict[str, Any] = {"reasoning_split": True}
    thinking = spec.options.get("enable_thinking")
    if thinking is not None:
        extra["thinking"] = {"type": "adaptive" if thinking else "disabled"}
    forms: tuple[Form, ...] = ("off",) if spec.structured_output == "auto" else ("schema", "json", "off")
    base_url = spec.base_url or REGIONS[spec.options.get("region") or "global_en"]
    return MiniMaxModel(
        spec,
        Wire(spec, base_url=base_url),
        cap_field="max_completion_tokens",
        structure=Structure(spec, forms),
        extra=extra,
        thinks_in_text=True,
        options=["enable_thinking"],
    )


PLUGIN = Provider(
    open=build,
    urls=tuple(REGIONS.values()),
    takes_common_effort=False,
    Options=MiniMaxOptions,
    routing=frozenset({"region"}),
    needs_key=True,
    default_model="MiniMax-M3",
)
