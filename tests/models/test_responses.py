"""The Responses API as sent and read, and the rule that chooses between it and Chat Completions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ModelError
from skillopt.messages import Image, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.providers import openai
from skillopt.models.providers.openai import OpenAIModel

SPEC = ModelSpec(provider="openai", name="gpt-x", api_key="key-0123456789", options={"api": "responses"})
HELLO = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello")),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="e1/s2/rollout/3",
    draw=4,
)
SENT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
GOLDEN: dict[str, Any] = {"model": "gpt-x", "input": SENT, "max_output_tokens": 64, "store": False}
ADD = Tool(
    name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "number"}}}
)
CALL = ToolCall(id="c1", name="add", arguments='{"a": 1}')


async def ask(
    spec: ModelSpec, request: Request = HELLO, answer: Answer | str = "Hi", wrong: Misbehaviour | None = None
) -> tuple[Call, Reply]:
    """One call: as the loopback provider saw it, and its reply."""
    seen: list[Call] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(call)
        return wrong

    async with LoopbackProvider(lambda _: answer, behave=behave) as server:
        model = openai.PLUGIN(replace(spec, base_url=server.base_url))
        try:
            replied = await model.complete(request)
        finally:
            await model.close()
    return seen[0], replied


async def raw(body: Any) -> Reply:
    """What a success status with exactly this body becomes."""
    _, reply = await ask(SPEC, wrong=Misbehaviour.status(200, body=body))
    return reply


async def test_unset_knobs_send_nothing_and_nothing_is_stored_at_the_provider() -> None:
    call, _ = await ask(SPEC)
    assert (call.api, call.body, call.place, call.draw) == ("responses", GOLDEN, "e1/s2/rollout/3", 4)


@pytest.mark.parametrize(
    ("knob", "value", "sent"),
    [
        ("temperature", 0.0, {"temperature": 0.0}),
        ("top_p", 0.9, {"top_p": 0.9}),
        ("reasoning_effort", "high", {"reasoning": {"effort": "high"}}),
        ("reasoning_effort", "none", {"reasoning": {"effort": "none"}}),
    ],
)
async def test_each_knob_that_is_set_is_sent_as_this_api_names_it(
    knob: str, value: Any, sent: dict[str, Any]
) -> None:
    spec = replace(SPEC, **{knob: value})
    call, _ = await ask(spec)
    assert call.body == {**GOLDEN, **sent}
    assert openai.PLUGIN(spec).fingerprint == {
        "provider": "openai",
        "model": "gpt-x",
        "api": "responses",
        knob: value,
    }


async def test_a_tool_conversation_is_a_list_of_items_and_tools_are_not_strict() -> None:
    talk = (
        Message(role="user", content="1+2?"),
        Message(role="assistant", content="Adding.", tool_calls=(CALL,)),
        Message(role="tool", content="3", tool_call_id="c1"),
        Message(role="assistant", content="", tool_calls=(replace(CALL, id="c2"),)),
        Message(role="tool", content="", tool_call_id="c2"),
    )
    call, _ = await ask(SPEC, replace(HELLO, messages=talk, tools=(ADD,)))
    assert call.body["input"] == [
        {"role": "user", "content": "1+2?"},
        {"role": "assistant", "content": "Adding."},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]
    tool = {
        "type": "function",
        "name": "add",
        "description": "Adds.",
        "parameters": dict(ADD.parameters),
        "strict": False,
    }
    assert call.body["tools"] == [tool]


async def test_images_are_parts_of_a_users_message_and_of_nobody_elses() -> None:
    image = Image(media_type="image/png", data="iVBORw0K")
    call, _ = await ask(
        SPEC, replace(HELLO, messages=(Message(role="user", content="What?", images=(image,)),))
    )
    shown = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0K", "detail": "auto"}
    assert call.body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "What?"}, shown]}
    ]
    with pytest.raises(ModelError) as caught:
        await ask(SPEC, replace(HELLO, messages=(Message(role="system", content="x", images=(image,)),)))
    assert caught.value.kind == "contract"


async def test_a_reply_carries_text_finish_usage_and_the_answering_model() -> None:
    _, reply = await ask(
        SPEC, HELLO, Answer(text="Hi é", input_tokens=20, output_tokens=3, cached=8, reasoning=2)
    )
    usage = Usage(input_tokens=20, output_tokens=3, cached_tokens=8, reasoning_tokens=2)
    assert reply == Reply(text="Hi é", finish="stop", usage=usage, model="gpt-x")
    _, reply = await ask(SPEC, HELLO, Answer(text="Hi", reports_usage=False))
    assert reply.usage is None


@pytest.mark.parametrize("finish", ["stop", "length", "refusal"])
async def test_every_finish_is_read(finish: Any) -> None:
    _, reply = await ask(SPEC, HELLO, Answer(text="x", finish=finish))
    assert (reply.finish, reply.text) == (finish, "x")


async def test_tool_calls_keep_their_call_id_and_the_arguments_as_written() -> None:
    _, reply = await ask(
        SPEC, replace(HELLO, tools=(ADD,)), Answer(text="Well.", tool_calls=(CALL,), reasoning=5)
    )
    assert (reply.text, reply.tool_calls, reply.finish) == ("Well.", (CALL,), "tool_calls")


def message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


TEXT = {"type": "output_text", "text": "x"}


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        ({"status": "completed", "output": []}, "", "stop"),
        (
            {"status": "completed", "output": [{"type": "reasoning"}, message(TEXT), message(TEXT)]},
            "xx",
            "stop",
        ),
        (
            {"status": "completed", "output": [message({"type": "refusal", "refusal": "No."})]},
            "No.",
            "refusal",
        ),
        (
            {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [message(TEXT)],
            },
            "x",
            "length",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []},
            "",
            "length",
        ),
        (
            {
                "status": "incomplete",
                "incomplete_details": {"reason": "content_filter"},
                "output": [message(TEXT)],
            },
            "x",
            "refusal",
        ),
    ],
)
async def test_every_kind_of_answer_is_read(body: Any, text: str, finish: str) -> None:
    reply = await raw(body)
    assert (reply.text, reply.finish, reply.usage) == (text, finish, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "completed"},
        {"status": "completed", "output": ["x"]},
        {"status": "completed", "output": [{"type": "message"}]},
        {"status": "completed", "output": [message({"type": "output_text"})]},
        {"status": "completed", "output": [{"type": "function_call", "name": "f"}]},
        {"status": "in_progress", "output": []},
        {"status": "failed", "output": [], "error": {"code": "server_error", "message": "boom"}},
        {"status": "cancelled", "output": []},
    ],
)
async def test_a_body_that_is_no_answer_is_an_outage(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        await raw(body)
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)


@pytest.mark.parametrize(
    ("name", "effort", "with_tools", "api"),
    [
        ("gpt-4o", None, False, "chat"),
        ("gpt-4o", None, True, "chat"),
        ("gpt-4.1-mini", None, True, "chat"),
        ("gpt-5.5", "medium", False, "chat"),
        ("gpt-5.5", None, True, "responses"),
        ("gpt-5.6-sol", "high", True, "responses"),
        ("gpt-5.5", "none", True, "chat"),
        ("gpt-5-chat-latest", None, True, "chat"),
        ("o3", None, True, "responses"),
        ("o3", "low", False, "chat"),
        ("gpt-5.3-codex", None, False, "responses"),
        ("gpt-5.1-codex-max", None, False, "responses"),
        ("codex-mini-latest", None, False, "responses"),
        ("gpt-5.5-pro", None, False, "responses"),
        ("o3-pro-2025-06-10", None, False, "responses"),
        ("o4-mini-deep-research", None, False, "responses"),
        ("ft:gpt-4o-mini:prose", None, True, "chat"),
        ("deepseek-v4-pro", None, False, "chat"),
        ("gemini-3-pro", None, True, "chat"),
    ],
)
async def test_auto_asks_through_the_api_that_can_do_it(
    name: str, effort: str | None, with_tools: bool, api: str
) -> None:
    spec = replace(SPEC, name=name, reasoning_effort=effort, options={"api": "auto"})
    call, _ = await ask(spec, replace(HELLO, tools=(ADD,) if with_tools else ()))
    assert call.api == api
    assert "api" not in openai.PLUGIN(spec).fingerprint


async def test_a_seed_keeps_a_question_with_tools_where_there_is_one() -> None:
    spec = replace(SPEC, name="gpt-5.5", seed=7, options={"api": "auto"})
    call, _ = await ask(spec, replace(HELLO, tools=(ADD,)))
    assert (call.api, call.body["seed"]) == ("chat", 7)


@pytest.mark.parametrize(
    ("base_url", "api"),
    [
        (None, "responses"),
        ("https://api.openai.com/v1", "responses"),
        ("https://eu.api.openai.com/v1", "responses"),
        ("https://acme.openai.azure.com/openai/v1", "responses"),
        ("https://gateway.example/v1", "chat"),
        ("https://notapi.openai.com.example/v1", "chat"),
        ("http://127.0.0.1:8000/v1", "chat"),
    ],
)
def test_unset_a_name_decides_at_openai_alone(base_url: str | None, api: str) -> None:
    """Another server may have Chat Completions only, whatever its models are called."""
    model = openai.PLUGIN(replace(SPEC, name="gpt-5.5-pro", options={}, base_url=base_url))
    assert isinstance(model, OpenAIModel)
    assert model.api(HELLO) == api


async def test_a_chosen_api_is_used_whatever_the_model() -> None:
    call, _ = await ask(replace(SPEC, name="gpt-5.5-pro", options={"api": "chat"}))
    assert call.api == "chat"
