"""What goes wrong on the wire has a name, for every provider and both SDKs, and no error text shows a key."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from _api import strict
from _loopback.provider import Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ConfigError, ModelError
from skillopt.messages import Message, Request, ToolCall
from skillopt.models import PROVIDERS
from skillopt.models.port import Model, ModelSpec
from skillopt.models.wires.http import is_loopback, kind_of_status, retry_after

KEY = "planted-Key/with+odd=chars%41"
HELLO = Request(
    messages=(Message(role="user", content="Hello"),),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="p/1",
)
both = pytest.mark.parametrize("provider", ["openai", "anthropic"])
every = pytest.mark.parametrize(
    "provider", ["openai", "responses", "anthropic", "azure", "compatible", "qwen", "minimax", "gemini"]
)
MINIMAX = ["reasoning_split"]


def spec(provider: str, **changes: Any) -> ModelSpec:
    """A spec of the provider; `responses` is OpenAI asked through its other wire format."""
    options = {"responses": {"api": "responses"}, "azure": {"auth_mode": "api_key"}}.get(provider, {})
    name = "openai" if provider == "responses" else provider
    return replace(ModelSpec(provider=name, name="m", api_key=KEY, timeout=5.0, options=options), **changes)


@asynccontextmanager
async def opened(spec: ModelSpec) -> AsyncIterator[Model]:
    model: Model = PROVIDERS.get(spec.provider)(spec)
    try:
        yield model
    finally:
        await model.close()


async def failure(spec: ModelSpec, wrong: Misbehaviour) -> ModelError:
    """The error one call ends with, and proof that it was sent exactly once."""
    async with LoopbackProvider(lambda _: "ok", behave=lambda _: wrong, check=strict(*MINIMAX)) as server:
        url = server.url if spec.provider in ("anthropic", "azure") else server.base_url
        async with opened(replace(spec, base_url=url)) as model:
            with pytest.raises(ModelError) as caught:
                await model.complete(HELLO)
        assert server.calls == 1
    return caught.value


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "simulated", "code": None, **more}}


@every
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, said("temperature is not supported"), "contract"),
        (400, said("Your credit balance is too low to access the API", type="invalid_request_error"), "auth"),
        (401, said("bad key"), "auth"),
        (402, said("pay first"), "auth"),
        (403, said("not allowed"), "auth"),
        (404, said("no such model"), "contract"),
        (405, said("no such method"), "contract"),
        (307, said("moved"), "contract"),
        (408, said("too slow"), "timeout"),
        (409, said("conflict"), "contract"),
        (413, said("too large"), "contract"),
        (422, said("bad field"), "contract"),
        (429, said("slow down"), "rate_limit"),
        (429, said("quota", code="insufficient_quota"), "auth"),
        (500, said("oops"), "unavailable"),
        (500, said("busy", type="overloaded_error"), "rate_limit"),
        (502, "<html>bad gateway</html>", "unavailable"),
        (503, said("maintenance"), "unavailable"),
        (529, said("overloaded"), "rate_limit"),
    ],
)
async def test_a_refused_call_has_a_kind_costs_no_tokens_and_quotes_the_provider(
    provider: str, status: int, body: Any, kind: str
) -> None:
    error = await failure(spec(provider), Misbehaviour.status(status, body=body))
    assert (error.kind, error.refused) == (kind, True)
    assert f"HTTP {status}" in error.detail
    assert status == 307 or (body if isinstance(body, str) else body["error"]["message"]) in error.detail


@every
async def test_a_used_up_quota_is_named_and_never_waited_for(provider: str) -> None:
    error = await failure(
        spec(provider), Misbehaviour.status(429, body=said("over", type="insufficient_quota"))
    )
    assert error.kind == "auth"
    assert "quota" in error.detail


@every
@pytest.mark.parametrize(
    "wrong",
    [Misbehaviour.reset(), Misbehaviour.garbage(), Misbehaviour.half(), Misbehaviour.odd()],
    ids=lambda wrong: wrong.kind,
)
async def test_a_broken_answer_is_an_outage_that_may_have_cost_tokens(
    provider: str, wrong: Misbehaviour
) -> None:
    error = await failure(spec(provider), wrong)
    assert (error.kind, error.refused) == ("unavailable", False)


@every
@pytest.mark.timeout(30)
async def test_a_hanging_call_is_a_timeout_of_the_whole_call(provider: str) -> None:
    error = await failure(spec(provider, timeout=0.2), Misbehaviour.hang())
    assert (error.kind, error.refused) == ("timeout", False)


@both
async def test_a_server_that_drips_bytes_cannot_hold_a_call_for_ever(provider: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        with contextlib.closing(writer):
            while not reader.at_eof():
                writer.write(b" ")
                await asyncio.sleep(0.05)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with opened(spec(provider, timeout=0.4, base_url=f"http://127.0.0.1:{port}/v1")) as model:
            with pytest.raises(ModelError) as caught:
                await model.complete(HELLO)
    assert caught.value.kind == "timeout"


@both
async def test_a_port_nobody_listens_on_and_a_name_nobody_knows_are_outages_that_cost_no_tokens(
    provider: str,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()[1]
        for url in (f"http://127.0.0.1:{dead}/v1", "http://provider.invalid/v1"):
            async with opened(spec(provider, base_url=url)) as model:
                with pytest.raises(ModelError) as caught:
                    await model.complete(HELLO)
            assert (caught.value.kind, caught.value.refused) == ("unavailable", True)


@both
async def test_something_that_does_not_speak_http_is_an_outage(provider: str) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"220 smtp ready\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with opened(spec(provider, base_url=f"http://127.0.0.1:{port}/v1")) as model:
            with pytest.raises(ModelError) as caught:
                await model.complete(HELLO)
    assert caught.value.kind == "unavailable"


@pytest.mark.slow
@both
async def test_a_planted_key_is_in_no_error_text(provider: str) -> None:
    wrongs = [
        Misbehaviour.status(code, body=said(f"key {KEY} is bad, {KEY!r}"))
        for code in (400, 401, 403, 404, 408, 429, 500, 529)
    ]
    wrongs += [
        Misbehaviour.status(code, body=f"<p>{KEY}</p> sk-ant-api03-{'a1' * 20}") for code in (400, 502)
    ]
    wrongs += [
        Misbehaviour.status(200, body=said(f"{KEY}")),
        Misbehaviour.reset(),
        Misbehaviour.half(),
        Misbehaviour.garbage(),
    ]
    # The key sits across the place where the message is cut.
    wrongs += [Misbehaviour.status(400, body=said("x" * (padding) + KEY)) for padding in range(400, 500, 7)]
    for wrong in wrongs:
        error = await failure(spec(provider), wrong)
        shown = f"{error} {error.detail} {error!r} {error.__cause__}"
        assert KEY not in shown
        assert KEY[:9] not in shown
        assert "sk-ant-" not in shown
        assert len(error.detail) <= 500
    assert KEY not in repr(spec(provider))


@both
def test_credentials_in_the_base_url_are_refused_without_being_shown(provider: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PROVIDERS.get(provider)(spec(provider, base_url="https://ann:hunter2hunter2@gateway.example/v1"))
    assert "gateway.example" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@every
async def test_what_the_provider_asks_to_wait_is_passed_on(provider: str) -> None:
    error = await failure(spec(provider), Misbehaviour.status(429, retry_after=7))
    assert error.retry_after == 7.0


@both
async def test_only_the_loopback_host_learns_the_place(provider: str) -> None:
    seen: list[Call] = []

    def answer(call: Call) -> str:
        seen.append(call)
        return "ok"

    async with LoopbackProvider(answer) as server:
        # the same server under a name that is not loopback
        for url in (
            server.url,
            server.url.replace("127.0.0.1", "0.0.0.0"),
        ):
            async with opened(spec(provider, base_url=f"{url}/v1")) as model:
                await model.complete(HELLO)
    assert [call.place for call in seen] == ["p/1", None]
    assert not [name for name in seen[1].headers if "skillopt" in name.lower()]


@both
async def test_the_environment_adds_nothing_to_a_call(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_ADMIN_KEY",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
    ):
        monkeypatch.setenv(name, "ambient-value")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Extra: ambient-value")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    seen: list[Call] = []

    def answer(call: Call) -> str:
        seen.append(call)
        return "ok"

    async with (
        LoopbackProvider(answer, api_key=KEY) as server,
        opened(spec(provider, base_url=server.base_url)) as model,
    ):
        await model.complete(HELLO)
    assert "ambient-value" not in str(dict(seen[0].headers))


@pytest.mark.slow
@both
async def test_many_calls_are_open_at_once_on_one_client(provider: str) -> None:
    async with (
        LoopbackProvider(lambda _: "ok", latency=lambda _: 0.3) as server,
        opened(spec(provider, base_url=server.base_url, connections=300)) as model,
    ):
        replies = await asyncio.gather(
            *(model.complete(replace(HELLO, place=f"p/{index}")) for index in range(300))
        )
        assert server.max_in_flight > 200
    assert {reply.text for reply in replies} == {"ok"}


@both
async def test_a_closed_model_opens_again_and_closing_twice_is_harmless(provider: str) -> None:
    async with LoopbackProvider(lambda _: "ok") as server:
        async with opened(spec(provider, base_url=server.base_url)) as model:
            await model.complete(HELLO)
            await model.close()
            await model.complete(HELLO)
        await model.close()


@both
def test_importing_and_building_a_provider_does_not_import_its_sdk(provider: str) -> None:
    program = (
        f"import sys; from skillopt.models.providers import {provider}; from skillopt.models.port import"
        f" ModelSpec\n{provider}.PLUGIN(ModelSpec(provider='{provider}', name='m', api_key='k'))\nprint([name"
        " for name in ('openai', 'anthropic', 'aiohttp', 'httpx', 'httpx2') if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250", "retry-after": "12"}, 0.25),
        ({"retry-after-ms": "nan", "retry-after": "12"}, 12.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, now=10.0) == seconds


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost:8000", True),
        ("http://0.0.0.0:1", False),
        ("http://10.0.0.1", False),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://127.0.0.1@example.org", False),
    ],
)
def test_loopback_is_decided_by_the_host_alone(url: str, local: bool) -> None:
    assert is_loopback(url) is local


@pytest.mark.parametrize(
    "body", [None, [], "text", {"error": "text"}, {"error": {"type": None}}, {"error": []}]
)
def test_any_shape_of_error_body_has_a_kind(body: Any) -> None:
    assert [kind_of_status(status, body) for status in (400, 401, 429, 500)] == [
        "contract",
        "auth",
        "rate_limit",
        "unavailable",
    ]


async def test_arguments_that_a_model_nested_without_end_are_an_error_of_that_call() -> None:
    """They are read, and sent again as far as JSON can be written; how far that is depends on the Python."""
    kinds = set()
    async with LoopbackProvider(lambda _: "ok", check=lambda *_: []) as server:  # noqa: SIM117
        async with opened(replace(spec("anthropic"), base_url=server.url)) as model:
            for depth in (10, *range(900, 1_000), 200_000):
                nested = ToolCall(id="a", name="f", arguments='{"a":' * depth + "1" + "}" * depth)
                asked = Message(role="assistant", content="", tool_calls=(nested,))
                told = Message(role="tool", content="x", tool_call_id="a")
                try:
                    await model.complete(replace(HELLO, messages=(*HELLO.messages, asked, told)))
                except ModelError as error:
                    kinds.add(error.kind)
    assert kinds == {"contract"}
