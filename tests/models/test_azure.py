"""Azure OpenAI: addresses, the four ways to log in, and the hosts a token may go to."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from _loopback import Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ConfigError, ModelError, ProviderDown
from skillopt.messages import Message, Request, Tool
from skillopt.models.port import ModelSpec
from skillopt.models.providers import azure
from skillopt.models.providers.azure import Token, TokenLogin, from_azure_identity
from skillopt.models.stack.limited import Limited, Limiter

KEY = "azure-key-0123456789"
SPEC = ModelSpec(
    provider="azure", name="my deployment", base_url="https://acme.openai.azure.com", api_key=KEY
)
TOKENS = replace(SPEC, api_key=None, options={"auth_mode": "azure_cli"})
HELLO = Request(
    messages=(Message(role="user", content="Hello"),),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="p/1",
)
GOLDEN = {
    "model": "my deployment",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_completion_tokens": 64,
}
TOOL = Tool(name="f", description="F.", parameters={"type": "object"})
CLASSIC = "/openai/deployments/my%20deployment/chat/completions?api-version="


@pytest.fixture
def azure_identity() -> None:
    pytest.importorskip("azure.identity", reason="the extra 'azure' is not installed")


class Tokens:
    """A source that counts: token-1, token-2 ... each good for `seconds`."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self.seconds = seconds
        self.fetched = 0

    async def __call__(self) -> Token:
        self.fetched += 1
        return Token(value=f"entra-token-{self.fetched}", expires_at=time.time() + self.seconds)


async def ask(
    spec: ModelSpec, *, path: str = "", source: Tokens | None = None, request: Request = HELLO
) -> Call:
    """One call, as the loopback provider saw it."""
    seen: list[Call] = []

    def answer(call: Call) -> str:
        seen.append(call)
        return "ok"

    async with LoopbackProvider(answer) as server:
        model = azure.build(replace(spec, base_url=server.url + path), token_source=source)
        try:
            await model.complete(request)
        finally:
            await model.close()
    return seen[0]


def credentials(call: Call) -> dict[str, str]:
    return {
        name: call.headers[name] for name in ("authorization", "api-key", "x-api-key") if name in call.headers
    }


@pytest.mark.parametrize("path", ["", "/", "/openai", "/openai/"])
async def test_an_api_key_goes_into_azures_header_to_the_deployments_own_path(path: str) -> None:
    call = await ask(SPEC, path=path)
    assert (call.path, call.body, credentials(call)) == (
        f"{CLASSIC}2024-12-01-preview",
        GOLDEN,
        {"api-key": KEY},
    )


async def test_a_chosen_api_version_is_used() -> None:
    assert (
        await ask(replace(SPEC, options={"api_version": "2025-04-01-preview"}))
    ).path == f"{CLASSIC}2025-04-01-preview"


async def test_the_newer_address_has_no_version_and_no_deployment_in_its_path() -> None:
    call = await ask(SPEC, path="/openai/v1/")
    assert (call.path, call.body, credentials(call)) == (
        "/openai/v1/chat/completions",
        GOLDEN,
        {"api-key": KEY},
    )


async def test_openai_compatible_uses_the_endpoint_as_a_base_url() -> None:
    call = await ask(replace(SPEC, options={"auth_mode": "openai_compatible"}), path="/v1")
    assert (call.path, call.body, credentials(call)) == (
        "/v1/chat/completions",
        GOLDEN,
        {"authorization": f"Bearer {KEY}"},
    )


@pytest.mark.parametrize("name", ["deepseek-v4-pro", "gemini-3-pro", "gpt-5.5", "gpt-5.5-pro"])
async def test_openai_compatible_is_chat_completions_whatever_the_model_is_called(name: str) -> None:
    spec = replace(SPEC, name=name, options={"auth_mode": "openai_compatible"})
    for request in (HELLO, replace(HELLO, tools=(TOOL,))):
        assert (await ask(spec, path="/v1", request=request)).path == "/v1/chat/completions"


async def test_openai_compatible_can_be_told_which_api_it_speaks() -> None:
    for api in ("responses", "auto"):
        spec = replace(SPEC, name="gpt-5.5-pro", options={"auth_mode": "openai_compatible", "api": api})
        assert (await ask(spec, path="/v1")).path == "/v1/responses"


async def test_a_deployment_with_another_vendor_s_model_has_chat_completions() -> None:
    assert (await ask(replace(SPEC, name="deepseek-v4-pro"), path="/openai/v1")).api == "chat"


async def test_a_deployment_named_after_a_responses_model_is_asked_there() -> None:
    codex = replace(SPEC, name="gpt-5.3-codex")
    assert (await ask(codex, path="/openai/v1")).path == "/openai/v1/responses"
    reasoning = replace(SPEC, name="gpt-5.5")
    with_tools = replace(HELLO, tools=(TOOL,))
    assert (await ask(reasoning, path="/openai/v1", request=with_tools)).api == "responses"
    assert (
        await ask(reasoning, request=with_tools)
    ).api == "chat"  # the versioned address of old knows no other


async def test_a_token_is_sent_as_a_bearer_and_no_key_beside_it() -> None:
    call = await ask(replace(TOKENS, api_key=KEY), source=Tokens())
    assert credentials(call) == {"authorization": "Bearer entra-token-1"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://acme.openai.azure.com",
        "https://openai.azure.com",
        "https://acme.openai.azure.com.evil.example",
        "https://evil.example/acme.openai.azure.com",
        "https://acmeopenai.azure.com",
        "https://api.openai.com/v1",
        "http://127.0.0.1:8000",
        "https://localhost",
    ],
)
@pytest.mark.parametrize("mode", ["azure_cli", "managed_identity"])
def test_a_token_never_goes_to_a_host_that_is_not_azure_over_https(endpoint: str, mode: str) -> None:
    with pytest.raises(ConfigError, match="only to Azure over https"):
        azure.PLUGIN(replace(TOKENS, base_url=endpoint, options={"auth_mode": mode}))
    if "127.0.0.1" not in endpoint and "localhost" not in endpoint:
        with pytest.raises(ConfigError, match="only to Azure over https"):
            azure.build(replace(TOKENS, base_url=endpoint), token_source=Tokens())


@pytest.mark.usefixtures("azure_identity")
@pytest.mark.parametrize(
    "endpoint",
    [
        "https://acme.openai.azure.com/",
        "https://ACME.OpenAI.Azure.com",
        "https://acme.cognitiveservices.azure.com",
        "https://acme.services.ai.azure.com/openai/v1",
        "https://acme.openai.azure.us",
        "https://acme.openai.azure.cn",
    ],
)
def test_azure_hosts_of_every_cloud_may_have_one(endpoint: str) -> None:
    assert azure.PLUGIN(replace(TOKENS, base_url=endpoint)).endpoint.startswith("https://acme.")


def test_without_a_mode_a_known_key_is_used_and_else_the_azure_cli() -> None:
    assert (
        azure.PLUGIN(replace(SPEC, base_url="https://gateway.example")).endpoint
        == "https://gateway.example:443"
    )
    with pytest.raises(ConfigError, match="only to Azure"):  # so it is a token that would be sent
        azure.PLUGIN(replace(SPEC, base_url="https://gateway.example", api_key=None))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (replace(SPEC, base_url=None), "AZURE_OPENAI_ENDPOINT"),
        (replace(SPEC, options={"auth_mode": "azure_cl"}), "Did you mean 'azure_cli'?"),
        (replace(SPEC, api_key=None, options={"auth_mode": "api_key"}), "AZURE_OPENAI_API_KEY"),
        (replace(SPEC, api_key=None, options={"auth_mode": "openai_compatible"}), "AZURE_OPENAI_API_KEY"),
        (replace(SPEC, options={"api_versoin": "x"}), "Did you mean 'api_version'?"),
        (replace(SPEC, options={"api": "chat"}), "is for auth_mode openai_compatible"),
    ],
)
def test_what_cannot_work_is_refused_before_a_call_and_says_what_to_do(spec: ModelSpec, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        azure.PLUGIN(spec)
    assert said in str(caught.value)


async def test_a_token_is_fetched_once_for_many_calls_and_again_before_it_ends() -> None:
    now = [1_000.0]
    fetched: list[float] = []

    async def source() -> Token:
        fetched.append(now[0])
        return Token(value=f"t{len(fetched)}", expires_at=now[0] + 3_600)

    login = TokenLogin(source, clock=lambda: now[0])
    for now[0] in (1_000.0, 2_000.0, 4_299.0, 4_300.0, 4_301.0):
        await login.headers()
    assert fetched == [1_000.0, 4_300.0]


async def refusing(refused: Callable[[Call], bool], source: Tokens, times: int = 1) -> LoopbackProvider:
    """A server that answers 401 to some calls, asked through the stack that asks again."""

    def behave(call):
        return Misbehaviour.status(401, body=f"no {call.headers['authorization']}") if refused(call) else None

    async with LoopbackProvider(lambda _: "ok", behave=behave) as server:
        model = azure.build(replace(TOKENS, base_url=server.url), token_source=source)
        try:
            for _ in range(times):
                await Limited(model, Limiter({})).complete(HELLO)
        finally:
            await model.close()
    return server


async def test_a_refused_token_is_renewed_once_and_the_question_asked_again() -> None:
    source = Tokens()
    server = await refusing(lambda call: call.headers["authorization"].endswith("-1"), source, times=3)
    assert ([entry.status for entry in server.log], source.fetched) == ([401, 200, 200, 200], 2)


async def test_each_token_that_worked_may_be_renewed_later() -> None:
    source = Tokens()
    server = await refusing(lambda call: call.index in (1, 4), source, times=4)
    assert ([entry.status for entry in server.log], source.fetched) == ([200, 401, 200, 200, 401, 200], 3)


async def test_a_login_that_is_refused_for_good_is_asked_once_more_and_ends_as_auth_without_showing_a_token() -> (
    None
):
    source = Tokens()
    with pytest.raises(ProviderDown, match="refuses the login") as caught:
        await refusing(lambda _: True, source)
    assert source.fetched == 2
    assert "entra-token" not in str(caught.value)


SCOPE = "https://cognitiveservices.azure.com/.default"


@pytest.fixture
def stub_az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the `az` on PATH, simulated by a shell script."""

    def make(program: str) -> None:
        path = tmp_path / "az"
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


@pytest.mark.parametrize("mode", ["azure_cli", "managed_identity"])
def test_a_token_without_azure_identity_is_refused_with_the_extra(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("azure", "azure.identity", "azure.identity.aio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"{mode} needs azure-identity: pip install .*\[azure\]"):
        azure.PLUGIN(replace(TOKENS, options={"auth_mode": mode}))


@pytest.mark.usefixtures("azure_identity")
async def test_the_azure_cli_is_asked_for_a_token_of_the_scope(
    tmp_path: Path, stub_az: Callable[[str], None]
) -> None:
    printed = json.dumps(
        {"accessToken": "from-az", "expires_on": 1_900_000_000, "expiresOn": "2000-01-01 00:00:00.000000"}
    )
    stub_az(f"echo \"$@\" > {tmp_path}/argv; echo '{printed}'")
    token = await from_azure_identity("azure:m", "azure_cli", SCOPE)()
    assert (token.value, token.expires_at) == ("from-az", 1_900_000_000.0)
    assert "https://cognitiveservices.azure.com" in (tmp_path / "argv").read_text()
    assert "from-az" not in repr(token)


@pytest.mark.usefixtures("azure_identity")
@pytest.mark.parametrize(
    "program",
    ["echo 'Please run az login to setup account.' >&2; exit 1", "echo nonsense", "echo '{}'", "exit 3"],
)
async def test_an_azure_cli_without_a_login_is_a_dead_login_with_the_remedy(
    program: str, stub_az: Callable[[str], None]
) -> None:
    stub_az(program)
    with pytest.raises(ModelError, match="az login") as caught:
        await from_azure_identity("azure:m", "azure_cli", SCOPE)()
    assert (caught.value.kind, caught.value.refused) == ("auth", True)


@pytest.mark.usefixtures("azure_identity")
async def test_a_missing_azure_cli_is_a_dead_login_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelError, match="Install the Azure CLI") as caught:
        await from_azure_identity("azure:m", "azure_cli", SCOPE)()
    assert caught.value.kind == "auth"


@pytest.mark.usefixtures("azure_identity")
async def test_a_scope_that_is_none_is_a_dead_login(stub_az: Callable[[str], None]) -> None:
    stub_az("exit 1")
    with pytest.raises(ModelError, match="scope"):
        await from_azure_identity("azure:m", "azure_cli", "no scope; $(x)")()


@asynccontextmanager
async def app_service(handler: Callable[[web.BaseRequest], Any]) -> AsyncIterator[str]:
    """The address at which Azure's App Service answers for a managed identity, simulated."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/token"
    finally:
        await runner.cleanup()


@pytest.mark.usefixtures("azure_identity")
@pytest.mark.parametrize("client_id", [None, "1234"])
async def test_a_managed_identity_gives_a_token_through_azure_identity(
    client_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        asked.append(dict(request.query))
        ends = str(int(time.time()) + 3600)
        return web.json_response(
            {"access_token": "from-identity", "expires_on": ends, "token_type": "Bearer", "resource": "r"}
        )

    async with app_service(handler) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", url)
        monkeypatch.setenv("IDENTITY_HEADER", "h")
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        token = await from_azure_identity("azure:m", "managed_identity", SCOPE, client_id)()
    assert token.value == "from-identity"
    assert token.expires_at > time.time() + 3000
    assert asked[0]["resource"] == "https://cognitiveservices.azure.com"
    assert asked[0].get("client_id") == client_id


@pytest.mark.usefixtures("azure_identity")
async def test_a_machine_without_an_identity_is_a_dead_login(monkeypatch: pytest.MonkeyPatch) -> None:

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response({"error": {"code": "identity_not_found"}}, status=400)

    async with app_service(handler) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", url)
        monkeypatch.setenv("IDENTITY_HEADER", "h")
        with pytest.raises(ModelError) as caught:
            await from_azure_identity("azure:m", "managed_identity", SCOPE)()
    assert (caught.value.kind, caught.value.refused) == ("auth", True)
