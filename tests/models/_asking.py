"""One call through a provider: as the loopback server got it, and as it came back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from _api import strict
from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.messages import Image, Message, Reply, Request, Tool, ToolCall
from skillopt.models import PROVIDERS
from skillopt.models.port import Model, ModelSpec

KEY = "key-0123456789"
CHAT = ("openai", "azure", "compatible", "qwen", "minimax", "gemini")
APIS = (*CHAT, "responses", "anthropic")
"""Every provider over HTTP; `responses` is OpenAI through its other wire format."""
OWN_FIELDS = ("reasoning_split", "thinking", "chat_template_kwargs", "extra_content")
"""What vendors add to Chat Completions; any other unknown field is refused."""
OPTIONS = {"responses": {"api": "responses"}, "azure": {"auth_mode": "api_key"}}

SYSTEM = Message(role="system", content="Be brief.")
USER = Message(role="user", content="Hello")
HELLO = Request(
    messages=(SYSTEM, USER), max_tokens=64, role="target", stage="rollout", place="e1/s2/rollout/3", draw=4
)
ADD = Tool(
    name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "number"}}}
)
CALL = ToolCall(id="c1", name="add", arguments='{"a": 1}')
PNG = Image(media_type="image/png", data="iVBORw0K")


def spec_of(api: str, **changes: Any) -> ModelSpec:
    name = "openai" if api == "responses" else api
    spec = ModelSpec(provider=name, name="m", api_key=KEY, timeout=5.0, options=OPTIONS.get(api, {}))
    return replace(spec, **changes)


def url_of(server: LoopbackProvider, spec: ModelSpec) -> str:
    return server.url if spec.provider in ("anthropic", "azure") else server.base_url


@asynccontextmanager
async def opened(spec: ModelSpec) -> AsyncIterator[Model]:
    model: Model = PROVIDERS.get(spec.provider)(spec)
    try:
        yield model
    finally:
        await model.close()


async def ask(
    spec: ModelSpec | str,
    request: Request = HELLO,
    answer: Answer | str = "Hi",
    *,
    wrong: Misbehaviour | None = None,
    path: str | None = None,
) -> tuple[Call, Reply]:
    spec = spec_of(spec) if isinstance(spec, str) else spec
    seen: list[Call] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(call)
        return wrong

    check = strict(*OWN_FIELDS)
    async with LoopbackProvider(lambda _: answer, behave=behave, check=check) as server:
        url = url_of(server, spec) if path is None else server.url + path
        async with opened(replace(spec, base_url=url)) as model:
            reply = await model.complete(request)
    return seen[0], reply


async def body_of(spec: ModelSpec | str, request: Request = HELLO) -> Any:
    return (await ask(spec, request))[0].body


async def read(api: str, body: Any) -> Reply:
    """The reply that a success status with exactly this body becomes, where a tool is on offer."""
    return (await ask(api, replace(HELLO, tools=(ADD,)), wrong=Misbehaviour.status(200, body=body)))[1]


def choice(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    return {"choices": [{"message": message, "finish_reason": finish, **more}]}


def response(*content: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    """An answer of Responses with one message of these parts."""
    return {"status": status, "output": [{"type": "message", "content": list(content)}], **more}


def message(*blocks: Any, reason: Any = "end_turn", **more: Any) -> dict[str, Any]:
    """An answer of Messages with these blocks."""
    return {"content": list(blocks), "stop_reason": reason, "model": "m", **more}
