"""The Anthropic Messages API as sent and read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from _loopback.provider import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ConfigError, ModelError
from skillopt.messages import Image, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.providers import anthropic

SPEC = ModelSpec(provider="anthropic", name="claude-x", api_key="key-0123456789")
HELLO = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello")),
    max_tokens=64,
    role="optimizer",
    stage="reflect",
    place="e1/s2/reflect/0",
    draw=1,
)
CACHED = {"type": "ephemeral"}
BRIEF = [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]
GOLDEN = {
    "model": "claude-x",
    "max_tokens": 64,
    "system": BRIEF,
    "messages": [{"role": "user", "content": "Hello"}],
}
ADD = Tool(name="add", description="Adds.", parameters={"type": "object"})
PNG = Image(media_type="image/png", data="iVBORw0K")
PNG_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}


async def ask(
    spec: ModelSpec,
    request: Request,
    answer: Answer | str = "Hi",
    wrong: Misbehaviour | None = None,
    path: str = "",
) -> tuple[Call, Reply]:
    """One call: as the loopback provider saw it, and its reply."""
    seen: list[Call] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(call)
        return wrong

    async with LoopbackProvider(lambda _: answer, behave=behave) as server:
        model = anthropic.PLUGIN(replace(spec, base_url=server.url + path))
        try:
            replied = await model.complete(request)
        finally:
            await model.close()
    return seen[0], replied


async def body_of(spec: ModelSpec, request: Request = HELLO) -> Any:
    call, _ = await ask(spec, request)
    return call.body


async def turns_of(*messages: Message) -> Any:
    return (await body_of(SPEC, replace(HELLO, messages=messages)))["messages"]


async def test_unset_knobs_send_nothing_and_who_asks_stays_out_of_the_body() -> None:
    assert await body_of(SPEC) == GOLDEN


@pytest.mark.parametrize(
    ("knob", "value", "sent"),
    [
        ("temperature", 0.0, {"temperature": 0.0}),
        ("top_p", 0.9, {"top_p": 0.9}),
        ("reasoning_effort", "high", {"output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}}),
        ("reasoning_effort", "none", {"thinking": {"type": "disabled"}}),
    ],
)
async def test_each_knob_that_is_set_is_sent_as_this_api_names_it(
    knob: str, value: Any, sent: dict[str, Any]
) -> None:
    spec = replace(SPEC, **{knob: value})
    assert await body_of(spec) == {**GOLDEN, **sent}
    assert anthropic.PLUGIN(spec).fingerprint == {"provider": "anthropic", "model": "claude-x", knob: value}


def test_a_seed_this_api_does_not_have_is_refused_and_not_dropped() -> None:
    with pytest.raises(ConfigError, match="no seed"):
        anthropic.PLUGIN(replace(SPEC, seed=0))


def test_a_missing_key_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        anthropic.PLUGIN(replace(SPEC, api_key=None))


async def test_without_a_system_message_there_is_no_system_field_and_several_are_joined() -> None:
    user = Message(role="user", content="Hello")
    assert "system" not in await body_of(SPEC, replace(HELLO, messages=(user,)))
    several = (Message(role="system", content="A"), user, Message(role="system", content="B"))
    body = await body_of(SPEC, replace(HELLO, messages=several))
    assert body["system"] == [{"type": "text", "text": "A\n\nB", "cache_control": CACHED}]
    assert body["messages"] == [{"role": "user", "content": "Hello"}]


async def test_the_stable_prefix_is_marked_for_the_prompt_cache_and_a_tool_conversation_to_its_end() -> None:
    assert "cache_control" not in await body_of(SPEC)
    talk = (
        *HELLO.messages,
        Message(role="assistant", content="", tool_calls=(ToolCall(id="c1", name="add", arguments="{}"),)),
        Message(role="tool", content="3", tool_call_id="c1"),
    )
    body = await body_of(SPEC, replace(HELLO, messages=talk, tools=(ADD,)))
    assert (body["system"], body["cache_control"]) == (BRIEF, CACHED)


@pytest.mark.parametrize(
    ("name", "effort", "cap", "thinking"),
    [
        ("claude-sonnet-4-5", "low", 10_000, {"type": "enabled", "budget_tokens": 2_000}),
        ("claude-haiku-4-5-20251001", "medium", 16_384, {"type": "enabled", "budget_tokens": 8_192}),
        ("claude-opus-4-1-20250805", "high", 16_384, {"type": "enabled", "budget_tokens": 13_107}),
        ("claude-sonnet-4-20250514", "max", 16_384, {"type": "enabled", "budget_tokens": 15_564}),
        ("claude-3-7-sonnet-latest", "low", 1_025, {"type": "enabled", "budget_tokens": 1_024}),
        ("claude-sonnet-4-6", "low", 64, {"type": "adaptive"}),
        ("claude-opus-4-8", "max", 64, {"type": "adaptive"}),
        ("claude-fable-5", "medium", 64, {"type": "adaptive"}),
        ("claude-sonnet-4-5", "none", 64, {"type": "disabled"}),
    ],
)
async def test_an_effort_becomes_the_thinking_this_model_knows(
    name: str, effort: str, cap: int, thinking: Any
) -> None:
    body = await body_of(replace(SPEC, name=name, reasoning_effort=effort), replace(HELLO, max_tokens=cap))
    assert body["thinking"] == thinking
    assert body.get("output_config") == ({"effort": effort} if thinking["type"] == "adaptive" else None)


@pytest.mark.parametrize(
    ("name", "effort", "fixed"),
    [
        ("claude-sonnet-4-5", "low", True),
        ("claude-sonnet-4-5", None, False),
        ("claude-sonnet-4-6", "low", False),
    ],
)
def test_a_budget_cuts_no_cap_that_thinking_is_a_share_of(name: str, effort: str | None, fixed: bool) -> None:
    assert anthropic.PLUGIN.fixes_cap(replace(SPEC, name=name, reasoning_effort=effort)) is fixed


async def test_a_cap_that_leaves_no_room_for_thinking_is_named_before_anything_is_sent() -> None:
    with pytest.raises(ModelError, match="max_completion_tokens") as caught:
        await ask(
            replace(SPEC, name="claude-sonnet-4-5", reasoning_effort="low"), replace(HELLO, max_tokens=1_024)
        )
    assert (caught.value.kind, caught.value.refused) == ("contract", True)


async def test_models_that_want_their_thinking_back_do_not_think_where_there_are_tools() -> None:
    spec = replace(SPEC, reasoning_effort="high")
    request = replace(HELLO, max_tokens=9_000, tools=(ADD,))
    assert "thinking" not in await body_of(replace(spec, name="claude-sonnet-4-5"), request)
    assert (await body_of(replace(spec, name="claude-sonnet-5"), request))["thinking"] == {"type": "adaptive"}


def test_an_effort_this_api_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="minimal"):
        anthropic.PLUGIN(replace(SPEC, reasoning_effort="minimal"))


def test_a_json_mode_this_api_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="no 'json' mode"):
        anthropic.PLUGIN(replace(SPEC, structured_output="json"))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
async def test_every_stop_reason_is_read(reason: str | None, finish: str) -> None:
    body = {"content": [{"type": "text", "text": "x"}], "stop_reason": reason, "model": "claude-x"}
    _, reply = await ask(SPEC, HELLO, wrong=Misbehaviour.status(200, body=body))
    assert (reply.finish, reply.text) == (finish, "x")


async def test_neighbours_of_one_side_become_one_turn_and_empty_messages_none() -> None:
    assert await turns_of(
        Message(role="user", content="one"),
        Message(role="assistant", content=""),
        Message(role="user", content="two", images=(PNG,)),
    ) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}, PNG_BLOCK],
        }
    ]


async def test_a_tool_conversation_uses_tool_blocks_and_joins_all_results_with_what_the_user_says_next() -> (
    None
):
    call = {"type": "tool_use", "name": "add", "input": {"a": 1}}
    assert await turns_of(
        Message(role="user", content="go"),
        Message(
            role="assistant",
            content="Adding.",
            tool_calls=(
                ToolCall(id="c1", name="add", arguments='{"a": 1}'),
                ToolCall(id="c2", name="add", arguments=""),
            ),
        ),
        Message(role="tool", content="3", tool_call_id="c1"),
        Message(role="tool", content="", tool_call_id="c2", images=(PNG,)),
        Message(role="user", content="go on"),
    ) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Adding."},
                {**call, "id": "c1"},
                {**call, "id": "c2", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "3"},
                {"type": "tool_result", "tool_use_id": "c2", "content": [PNG_BLOCK]},
                {"type": "text", "text": "go on"},
            ],
        },
    ]


async def test_tools_are_sent_with_their_schema() -> None:
    body = await body_of(SPEC, replace(HELLO, tools=(ADD,)))
    assert body == {
        **GOLDEN,
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
    }


async def test_earlier_tool_arguments_that_are_no_object_are_a_contract_error() -> None:
    broken = Message(
        role="assistant", content="", tool_calls=(ToolCall(id="c1", name="add", arguments="{1"),)
    )
    with pytest.raises(ModelError) as caught:
        await turns_of(Message(role="user", content="x"), broken)
    assert caught.value.kind == "contract"


async def test_cached_input_is_part_of_the_input_tokens() -> None:
    _, reply = await ask(
        SPEC, HELLO, Answer(text="Hi", input_tokens=100, output_tokens=3, cached=80, reasoning=1)
    )
    usage = Usage(input_tokens=100, output_tokens=3, cached_tokens=80, reasoning_tokens=1)
    assert reply == Reply(text="Hi", finish="stop", usage=usage, model="claude-x")


async def test_input_written_to_the_cache_is_input_that_was_not_cached_and_is_told_apart() -> None:
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 70,
        "cache_read_input_tokens": 25,
        "output_tokens": 1,
    }
    body = {
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
        "model": "claude-x",
        "usage": usage,
    }
    _, reply = await ask(SPEC, HELLO, wrong=Misbehaviour.status(200, body=body))
    assert reply.usage == Usage(input_tokens=100, output_tokens=1, cached_tokens=25, cache_write_tokens=70)


async def test_unreported_usage_is_unknown() -> None:
    _, reply = await ask(SPEC, HELLO, Answer(text="Hi", reports_usage=False))
    assert reply.usage is None


@pytest.mark.parametrize("finish", ["stop", "length", "refusal"])
async def test_every_finish_is_read(finish: Any) -> None:
    _, reply = await ask(SPEC, HELLO, Answer(text="x", finish=finish))
    assert reply.finish == finish


async def test_an_answer_without_blocks_is_an_empty_answer() -> None:
    _, reply = await ask(SPEC, HELLO, "")
    assert (reply.text, reply.finish) == ("", "stop")


async def test_thinking_is_not_part_of_the_answer_and_tool_calls_are() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "A"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "text", "text": "B"},
    ]
    body = {
        "content": blocks,
        "stop_reason": "tool_use",
        "model": "claude-x",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    _, reply = await ask(SPEC, HELLO, wrong=Misbehaviour.status(200, body=body))
    assert (reply.text, reply.finish, reply.tool_calls) == (
        "AB",
        "tool_calls",
        (ToolCall(id="c1", name="add", arguments='{"a": 1}'),),
    )


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_works_with_and_without_the_version(path: str) -> None:
    call, _ = await ask(SPEC, HELLO, path=path)
    assert call.api == "messages"


@pytest.mark.parametrize(
    "body",
    [
        {"content": "text"},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "tool_use", "name": "x"}]},
        {"content": ["x"]},
        {"type": "error", "error": {"type": "api_error", "message": "boom"}},
    ],
)
async def test_a_body_that_is_no_answer_is_an_outage(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(SPEC, HELLO, wrong=Misbehaviour.status(200, body=body))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)
