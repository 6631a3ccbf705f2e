"""An answer that its provider broke off is an outage on every wire, and never something the model said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from _api import strict
from _loopback import LoopbackProvider, Misbehaviour
from skillopt.agents import driver
from skillopt.errors import Fault, ModelError
from skillopt.messages import Message, Reply, Request
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec
from skillopt.process import Finished
from skillopt.programs.port import AgentPlace

HELLO = Request(
    messages=(Message(role="user", content="Hello"),),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="p/1",
)
CHAT = ("openai", "azure", "compatible", "qwen", "minimax", "gemini")
PROVIDERS_AND_APIS = (*CHAT, "responses", "anthropic")
BROKEN = ("error", "abort", "insufficient_system_resource", "network_error", "unknown", "", None)


async def ask(provider: str, wrong: Misbehaviour) -> Reply:
    options = {"responses": {"api": "responses"}, "azure": {"auth_mode": "api_key"}}.get(provider, {})
    name = "openai" if provider == "responses" else provider
    spec = ModelSpec(provider=name, name="m", api_key="key", timeout=5.0, options=options)
    async with LoopbackProvider(
        lambda _: "Par", behave=lambda _: wrong, check=strict("reasoning_split")
    ) as server:
        url = server.url if name in ("anthropic", "azure") else server.base_url
        model = PROVIDERS.get(name)(replace(spec, base_url=url))
        try:
            reply: Reply = await model.complete(HELLO)
            return reply
        finally:
            await model.close()


@pytest.mark.parametrize("provider", PROVIDERS_AND_APIS)
@pytest.mark.parametrize("reason", BROKEN)
async def test_an_answer_that_ends_for_no_reason_that_ends_answers_is_an_outage(
    provider: str, reason: str | None
) -> None:
    with pytest.raises(ModelError, match="broke off") as caught:
        await ask(provider, Misbehaviour.broken_off(reason))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)
    assert repr(reason) in caught.value.detail
    assert caught.value.tokens == (2, 1)  # what the provider counted for it


def choice(finish: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "Par"}, "finish_reason": finish, **more}]}


def response(status: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Par"}
    return {"status": status, "output": [{"type": "message", "content": [part]}], **more}


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        *[(name, choice("error", error={"code": 502, "message": "upstream"})) for name in CHAT],
        *[(name, choice("stop", error={"code": 502, "message": "upstream"})) for name in CHAT],
        ("compatible", {"choices": [{"message": {"content": ""}, "finish_reason": "tool_calls"}]}),
        ("compatible", {"choices": [{"message": {"content": "Par"}}]}),
        ("compatible", choice(["stop"])),
        ("responses", response("failed")),
        ("responses", response("cancelled")),
        ("responses", response("in_progress")),
        ("responses", response("incomplete")),
        ("responses", response("incomplete", incomplete_details={"reason": None})),
        ("anthropic", {"content": [{"type": "text", "text": "Par"}], "stop_reason": "pause_turn"}),
        ("anthropic", {"content": [{"type": "text", "text": "Par"}], "stop_reason": "tool_use"}),
        ("anthropic", {"content": [], "stop_reason": None}),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "upstream"}}),
    ],
)
async def test_every_other_way_to_say_that_this_is_no_answer_is_an_outage(
    provider: str, body: dict[str, Any]
) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(provider, Misbehaviour.status(200, body=body))
    assert caught.value.kind == "unavailable"
    assert "upstream" not in str(body) or "upstream" in caught.value.detail


async def test_what_minimax_declines_as_sensitive_is_a_refusal_whatever_its_choice_says() -> None:
    body = {**choice(None), "base_resp": {"status_code": 1027, "status_msg": "output sensitive"}}
    assert (await ask("minimax", Misbehaviour.status(200, body=body))).finish == "refusal"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("claude_code", '{"type":"result","subtype":"success","result":"Par","stop_reason":"error"}'),
        ("claude_code", '{"type":"result","subtype":"success","result":"Par","stop_reason":"pause_turn"}'),
        ("claude_code", '{"type":"result","subtype":"error_during_execution","is_error":true}'),
        ("codex", '{"type":"turn.failed","error":{"message":"stream disconnected"}}'),
        ("copilot", '{"type":"abort","data":{"reason":"upstream"}}\n{"type":"result"}'),
        ("copilot", '{"type":"session.error","data":{"message":"upstream"}}\n{"type":"result"}'),
        ("cursor", '{"type":"result","subtype":"error","result":"Par"}'),
        *[
            ("opencode", f'{{"type":"step_finish","part":{{"reason":{reason}}}}}')
            for reason in ('"error"', '"unknown"', '"other"', "null")
        ],
    ],
)
def test_an_agent_whose_answer_broke_off_has_not_answered(name: str, printed: str, tmp_path: Any) -> None:
    place = AgentPlace(root=tmp_path, home=tmp_path, workspace=tmp_path, temp=tmp_path)
    done = Finished(code=0, stdout=printed.encode(), stderr=b"")
    with pytest.raises(Fault) as caught:
        driver(name).report(done, place, None)
    assert caught.value.kind == "unavailable", caught.value
