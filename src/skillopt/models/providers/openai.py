"""OpenAI: Chat Completions and Responses at api.openai.com, or at the base URL of the role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from skillopt.config.service import Options
from skillopt.errors import ConfigError
from skillopt.messages import Reply, Request
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire
from skillopt.models.wires.responses import ResponsesModel
from skillopt.models.wires.structured import Form, Structure, WireModel
from skillopt.money import by_address

BASE_URL = "https://api.openai.com/v1"
Api = Literal["auto", "chat", "responses"]

# What OpenAI documents about its models, and what `auto` makes of it. Names of other vendors' models, such as
# deepseek-v4-pro, say nothing of the kind.
#   *-codex*, codex-*, gpt-*-pro, o*-pro, *-deep-research
#                                                Responses: they have no Chat Completions
#   o1 o3 o4 ..., gpt-5 and later, with tools    Responses, unless the effort is `none`: since gpt-5.4 Chat
#                                                Completions refuses the two together
#   any other, and these without tools           Chat Completions: every parameter is there, `seed` too
_ONLY_RESPONSES = re.compile(
    r"(?:^|-)codex(?:-|$)|^(?:gpt|o\d).*-pro(?:-20\d\d|$)|-deep-research|^computer-use"
)
_REASONING = re.compile(r"^(?:o\d|gpt-(?:[5-9]|\d\d))(?!.*-chat)")


class OpenAIModel(WireModel):
    """A model of the OpenAI API behind whichever wire format fits the question."""

    def __init__(
        self,
        spec: ModelSpec,
        wire: Wire,
        *,
        api: Api = "auto",
        chat_path: str = "/chat/completions",
        tools_move: bool = True,
    ) -> None:
        """`tools_move`: questions with tools go to Responses where the model reasons."""
        structure = Structure(spec)
        super().__init__(spec, wire, chat_path, structure, [] if api == "auto" else ["api"])
        self._chat = ChatModel(
            spec, wire, cap_field="max_completion_tokens", path=chat_path, structure=structure
        )
        self._responses = ResponsesModel(spec, wire, structure=structure)
        self._api = api
        self._tools_move = tools_move
        if spec.seed is not None and (api == "responses" or (api == "auto" and only_responses(spec.name))):
            raise ConfigError(
                f"{spec.provider}:{spec.name} is asked through the Responses API, which has no seed. Unset"
                " the seed."
            )

    def api(self, request: Request) -> Literal["chat", "responses"]:
        """The wire format for this request: a function of model, settings and request alone."""
        if self._api != "auto":
            return self._api
        if only_responses(self._spec.name):
            return "responses"
        reasons = _REASONING.search(self._spec.name) is not None and self._spec.reasoning_effort != "none"
        moves = self._tools_move and bool(request.tools) and reasons and self._spec.seed is None
        return "responses" if moves else "chat"

    def format_of(self, request: Request) -> WireModel:
        return self._responses if self.api(request) == "responses" else self._chat

    def body(self, request: Request, form: Form = "off") -> dict[str, Any]:
        return self.format_of(request).body(request, form)

    def read(self, answer: Mapping[str, Any]) -> Reply:
        """The reply that an answer of either format holds."""
        return (self._responses if answer.get("object") == "response" else self._chat).read(answer)


def default_api(base_url: str) -> Api:
    """What `api` is where it is not set: another server may have no Responses API, whatever its models are
    called.
    """
    host = urlsplit(base_url).hostname or ""
    return "auto" if f".{host}".endswith((".api.openai.com", ".azure.com")) else "chat"


def only_responses(name: str) -> bool:
    """True for a model that OpenAI serves through the Responses API alone."""
    return _ONLY_RESPONSES.search(name) is not None


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
