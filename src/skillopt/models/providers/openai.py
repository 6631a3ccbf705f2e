"""The OpenAI API: Chat Completions and Responses at api.openai.com, or at the base URL given."""

from __future__ import annotations

from pydantic import Field

from skillopt.config.service import Options
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.providers._openai import Api, OpenAIModel, default_api
from skillopt.models.wires.http import Wire
from skillopt.money import by_address

BASE_URL = "https://api.openai.com/v1"


class OpenAIOptions(Options):
    """Options of the OpenAI API."""

    api: Api | None = Field(
        default=None,
        description="Which API is spoken; unset means auto at OpenAI, by what the model can do, else chat.",
    )


def build(spec: ModelSpec) -> Model:
    """A model of the OpenAI API."""
    base_url = spec.base_url or BASE_URL
    api: Api = spec.options.get("api") or default_api(base_url)
    wire = Wire(spec, base_url=base_url)
    return OpenAIModel(spec, wire, api=api)


PLUGIN = Provider(
    open=build,
    urls=(BASE_URL,),
    Options=OpenAIOptions,
    needs_key=True,
    default_model="gpt-5.5",
    price=by_address("https://api.openai.com"),
)
