"""Chat Completions, Responses and Messages: what is sent, and what an answer becomes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _loopback import Answer
from models._asking import (
    ADD,
    APIS,
    CALL,
    CHAT,
    HELLO,
    PNG,
    SYSTEM,
    USER,
    ask,
    body_of,
    choice,
    message,
    read,
    response,
    spec_of,
)
from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, Tool, ToolCall, Usage, as_plain
from skillopt.models import PROVIDERS
from skillopt.models.wires.chat import without_thinking

SENT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
CACHED = {"type": "ephemeral"}
BRIEF = [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]
GOLDEN: dict[str, dict[str, Any]] = {
    **{api: {"model": "m", "messages": SENT, "max_completion_tokens": 64} for api in ("openai", "azure")},
    **{api: {"model": "m", "messages": SENT, "max_tokens": 64} for api in ("compatible", "qwen", "gemini")},
    "minimax": {"model": "m", "messages": SENT, "max_completion_tokens": 64, "reasoning_split": True},
    "responses": {"model": "m", "input": SENT, "max_output_tokens": 64, "store": False},
    "anthropic": {"model": "m", "max_tokens": 64, "system": BRIEF, "messages": SENT[1:]},
}
KNOBS = [
    ("temperature", 0.0),
    ("top_p", 0.9),
    ("seed", 0),
    ("reasoning_effort", "low"),
    ("reasoning_effort", "none"),
]
OTHER_SPELLINGS: dict[tuple[str, Any], dict[str, Any]] = {
    ("responses", "low"): {"reasoning": {"effort": "low"}},
    ("responses", "none"): {"reasoning": {"effort": "none"}},
    ("anthropic", "low"): {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}},
    ("anthropic", "none"): {"thinking": {"type": "disabled"}},
}
HAS_NOT = {("responses", "seed"), ("anthropic", "seed"), ("minimax", "seed"), ("minimax", "reasoning_effort")}


@pytest.mark.parametrize("api", APIS)
async def test_unset_knobs_send_nothing_and_who_asks_stays_out_of_the_body(api: str) -> None:
    call, reply = await ask(api)
    assert call.body == GOLDEN[api]
    assert (call.place, call.draw, reply.text) == ("e1/s2/rollout/3", 4, "Hi")


@pytest.mark.parametrize(
    ("api", "knob", "value"),
    [(api, *knob) for api in APIS for knob in KNOBS if (api, knob[0]) not in HAS_NOT],
)
async def test_a_knob_that_is_set_is_sent_as_the_api_names_it_and_is_in_the_fingerprint(
    api: str, knob: str, value: Any
) -> None:
    spec = spec_of(api, **{knob: value})
    assert await body_of(spec) == {**GOLDEN[api], **OTHER_SPELLINGS.get((api, value), {knob: value})}
    model = PROVIDERS.get(spec.provider)(replace(spec, base_url="https://example.org/v1"))
    own = {"api": "responses"} if api == "responses" else {}
    at = {"address": "https://example.org/v1"}
    assert model.fingerprint == {"provider": spec.provider, "model": "m", **at, **own, knob: value}


async def test_a_place_with_any_letters_reaches_the_loopback_host() -> None:
    call, _ = await ask("openai", replace(HELLO, place="e1/s2;x/ä %41/3"))
    assert call.place == "e1/s2;x/ä %41/3"


def talk(content: str = "", results: tuple[str, ...] = ("3",), first: ToolCall = CALL) -> tuple[Message, ...]:
    """A conversation in which tools were called once."""
    calls = tuple(replace(first, id=f"c{number}") for number in range(1, len(results) + 1))
    return (
        USER,
        Message(role="assistant", content=content, tool_calls=calls),
        *(
            Message(role="tool", content=result, tool_call_id=f"c{n}")
            for n, result in enumerate(results, start=1)
        ),
    )


async def test_a_tool_conversation_in_chat_completions() -> None:
    body = await body_of("openai", replace(HELLO, messages=talk(), tools=(ADD,)))
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert body["messages"] == [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
    ]
    offer = {"name": "add", "description": "Adds.", "parameters": dict(ADD.parameters)}
    assert body["tools"] == [{"type": "function", "function": offer}]


async def test_a_tool_conversation_in_responses_is_a_list_of_items_and_tools_are_not_strict() -> None:
    body = await body_of("responses", replace(HELLO, messages=talk("Adding.", ("3", "")), tools=(ADD,)))
    call = {"type": "function_call", "name": "add", "arguments": '{"a": 1}'}
    assert body["input"] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Adding."},
        {**call, "call_id": "c1"},
        {**call, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]
    offer = {"name": "add", "description": "Adds.", "parameters": dict(ADD.parameters)}
    assert body["tools"] == [{"type": "function", **offer, "strict": False}]


async def test_a_tool_conversation_in_messages_has_blocks_and_joins_neighbours_of_one_side() -> None:
    before, after = (
        Message(role="assistant", content=""),
        Message(role="user", content="go on", images=(PNG,)),
    )
    messages = (SYSTEM, before, *talk("Adding.", ("3", "")), after, Message(role="system", content="B"))
    body = await body_of("anthropic", replace(HELLO, messages=messages, tools=(ADD,)))
    call = {"type": "tool_use", "name": "add", "input": {"a": 1}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
    assert body["messages"] == [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Adding."}, {**call, "id": "c1"}, {**call, "id": "c2"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "3"},
                {"type": "tool_result", "tool_use_id": "c2", "content": ""},
                {"type": "text", "text": "go on"},
                image,
            ],
        },
    ]
    assert body["system"] == [{"type": "text", "text": "Be brief.\n\nB", "cache_control": CACHED}]
    assert body["cache_control"] == CACHED, "the next turn starts with all of it"
    assert body["tools"] == [{"name": "add", "description": "Adds.", "input_schema": dict(ADD.parameters)}]
    assert "system" not in await body_of("anthropic", replace(HELLO, messages=(USER,)))


async def test_earlier_tool_arguments_that_are_no_object_cannot_be_sent_in_messages() -> None:
    for arguments in ("{1", "[1]"):
        with pytest.raises(ModelError) as caught:
            await ask("anthropic", replace(HELLO, messages=talk(first=replace(CALL, arguments=arguments))))
        assert caught.value.kind == "contract"
    empty = await body_of("anthropic", replace(HELLO, messages=talk(first=replace(CALL, arguments=""))))
    assert empty["messages"][1]["content"][0]["input"] == {}


@pytest.mark.parametrize(
    ("api", "turns", "shown"),
    [
        ("openai", "messages", [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {}}]),
        (
            "responses",
            "input",
            [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": {}}],
        ),
    ],
)
async def test_images_are_data_uris_and_only_a_user_can_show_one(
    api: str, turns: str, shown: list[dict[str, Any]]
) -> None:
    user = Message(role="user", content="What?", images=(PNG,))
    uri = "data:image/png;base64,iVBORw0K"
    image = {"image_url": {"url": uri}} if api == "openai" else {"image_url": uri, "detail": "auto"}
    body = await body_of(api, replace(HELLO, messages=(user,)))
    assert body[turns] == [{"role": "user", "content": [shown[0], {**shown[1], **image}]}]
    with pytest.raises(ModelError) as caught:
        await ask(api, replace(HELLO, messages=(replace(user, role="system"),)))
    assert caught.value.kind == "contract"


@pytest.mark.parametrize("api", APIS)
async def test_a_reply_has_text_finish_usage_and_the_model_that_answered(api: str) -> None:
    answer = Answer(text="Hi é", input_tokens=20, output_tokens=3, cached=8, reasoning=2)
    usage = Usage(input_tokens=20, output_tokens=3, cached_tokens=8, reasoning_tokens=2)
    assert (await ask(api, HELLO, answer))[1] == Reply(text="Hi é", finish="stop", usage=usage, model="m")
    assert (await ask(api, HELLO, Answer(text="Hi", reports_usage=False)))[1].usage is None, "and not zero"
    _, reply = await ask(api, HELLO, "")
    assert (reply.text, reply.finish) == ("", "stop"), "an empty answer is an answer"
    _, reply = await ask(api, replace(HELLO, max_tokens=16), "0123456789" * 10)
    assert (len(reply.text), reply.finish) == (64, "length")


@pytest.mark.parametrize("api", APIS)
async def test_tool_calls_come_back_as_the_model_wrote_them(api: str) -> None:
    call = replace(CALL, arguments='{"a": 1.0}')
    _, reply = await ask(api, replace(HELLO, tools=(ADD,)), Answer(text="Well.", tool_calls=(call,)))
    assert (reply.text, reply.tool_calls, reply.finish) == ("Well.", (call,), "tool_calls")


TEXT = {"type": "text", "text": "x"}
USE = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
OUTPUT = {"type": "output_text", "text": "x"}
FUNCTION = {"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}


ENDS = {
    "compatible": {
        **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence"), "stop"),
        **dict.fromkeys(("length", "model_length"), "length"),
        **dict.fromkeys(("content_filter", "sensitive"), "refusal"),
        "function_call": "tool_calls",
    },
    "responses": {"max_output_tokens": "length", "content_filter": "refusal"},
    "anthropic": {
        **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
        **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
        "refusal": "refusal",
    },
}
ODD: list[tuple[str, Any, str, str]] = [
    ("compatible", choice({"content": None}, "length"), "", "length"),
    ("compatible", choice({"content": None, "refusal": "No."}), "No.", "refusal"),
    ("compatible", choice({"refusal": "No."}), "No.", "refusal"),
    ("compatible", choice({"content": [{"type": "thinking"}, TEXT, TEXT]}), "xx", "stop"),
    ("compatible", choice({"content": "", "tool_calls": [FUNCTION]}), "", "tool_calls"),
    ("compatible", choice({"content": [], "tool_calls": [FUNCTION]}), "", "tool_calls"),
    ("responses", response(), "", "stop"),
    ("responses", {"status": "completed", "output": [{"type": "reasoning"}]}, "", "stop"),
    ("responses", response(OUTPUT, OUTPUT), "xx", "stop"),
    ("responses", response({"type": "refusal", "refusal": "No."}), "No.", "refusal"),
    ("anthropic", message({"type": "thinking"}, TEXT, USE, TEXT, reason="tool_use"), "xx", "tool_calls"),
]


def ended(api: str, reason: str) -> dict[str, Any]:
    if api == "responses":
        return response(OUTPUT, status="incomplete", incomplete_details={"reason": reason})
    return choice({"content": "x"}, reason) if api == "compatible" else message(TEXT, reason=reason)


@pytest.mark.parametrize(
    ("api", "body", "text", "finish"),
    [*ODD, *((api, ended(api, why), "x", finish) for api in ENDS for why, finish in ENDS[api].items())],
)
async def test_every_way_to_end_an_answer_is_read(api: str, body: Any, text: str, finish: str) -> None:
    reply = await read(api, body)
    assert (reply.text, reply.finish, reply.usage) == (text, finish, None)
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [{"a": 1}] * ("c1" in str(body))


async def test_input_written_to_the_cache_is_input_that_was_not_cached_and_is_told_apart() -> None:
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 70,
        "cache_read_input_tokens": 25,
        "output_tokens": 1,
    }
    reply = await read("anthropic", message(TEXT, usage=usage))
    assert reply.usage == Usage(input_tokens=100, output_tokens=1, cached_tokens=25, cache_write_tokens=70)


@pytest.mark.parametrize(
    "usage",
    [
        [],
        {"prompt_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
    ],
)
async def test_usage_that_cannot_be_read_is_unknown_and_not_zero(usage: Any) -> None:
    assert (await read("compatible", {**choice({"content": "x"}), "usage": usage})).usage is None


async def test_half_a_surrogate_pair_anywhere_in_an_answer_can_be_stored() -> None:
    half = json.loads('"\\ud800"')
    call = {
        "id": half,
        "type": "function",
        "function": {"name": f"a{half}", "arguments": f'{{"q": "{half}"}}'},
    }
    reply = await read(
        "compatible", {"model": half, **choice({"content": f"a{half}b", "tool_calls": [call]})}
    )
    assert reply.text == "a�b"
    assert json.dumps(reply, ensure_ascii=False, default=as_plain).encode()


async def test_what_cannot_be_written_as_json_is_an_error_of_that_call() -> None:
    with pytest.raises(ModelError, match="not valid Unicode") as caught:
        await ask("openai", replace(HELLO, messages=(Message(role="user", content="\ud800"),)))
    assert caught.value.kind == "contract"
    nested = replace(CALL, arguments='{"a":' * 200_000 + "1" + "}" * 200_000)
    with pytest.raises(ModelError) as caught:
        await ask("anthropic", replace(HELLO, messages=talk(first=nested)))
    assert caught.value.kind == "contract"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", "plain"),
        ("<think>hm</think>\n\n42", "42"),
        ("\n<think>\nhm\n</think>42", "42"),
        ("hm, so\n</think>\n\n42", "42"),
        ("<think>cut in the middle", ""),
        ("Write <think> tags like <think>x</think>", "Write <think> tags like <think>x</think>"),
        ("", ""),
    ],
)
def test_thinking_in_the_text_is_not_part_of_the_answer(text: str, said: str) -> None:
    assert without_thinking(text) == said


FIELDS = (
    *(
        "choices",
        "message",
        "content",
        "finish_reason",
        "tool_calls",
        "function",
        "name",
        "id",
        "type",
        "text",
    ),
    *("output", "status", "stop_reason", "usage", "error", "arguments", "call_id", "input"),
)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["stop", "text", "x", ""])
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
ANSWERS = st.dictionaries(
    st.sampled_from(["choices", "output", "content", "status", "stop_reason", "usage", "error"]), JSON
)
MODELS = {
    name: PROVIDERS.get(spec.provider)(replace(spec, base_url="http://127.0.0.1:9/v1"))
    for name in (*CHAT, "responses", "anthropic")
    for spec in [spec_of(name)]
}


@settings(max_examples=200, deadline=None)
@given(api=st.sampled_from(APIS), answer=ANSWERS)
def test_an_answer_of_any_shape_is_a_reply_or_a_model_error(api: str, answer: dict[str, Any]) -> None:
    try:
        reply = MODELS[api].read(answer)
    except ModelError as error:
        assert error.kind in ("unavailable", "contract", "auth", "rate_limit", "timeout")
    else:
        assert isinstance(reply.text, str) and json.dumps(reply, default=as_plain)


@settings(max_examples=100, deadline=None)
@given(
    api=st.sampled_from(APIS),
    texts=st.lists(st.text(max_size=20), min_size=1, max_size=4),
    tools=st.booleans(),
    cap=st.integers(1, 50_000),
)
def test_a_body_holds_every_word_of_the_conversation_and_is_a_function_of_the_request(
    api: str, texts: list[str], tools: bool, cap: int
) -> None:
    turns = tuple(
        Message(role="user" if n % 2 == 0 else "assistant", content=text) for n, text in enumerate(texts)
    )
    offered = (Tool(name="t", description="d", parameters={"type": "object"}),) if tools else ()
    request = Request(messages=turns, max_tokens=cap, role="judge", stage="s", place="p", tools=offered)
    body = MODELS[api].body(request)
    assert body == MODELS[api].body(replace(request, place="q", draw=3, stage="other"))
    written = json.dumps(body)
    assert all(json.dumps(text)[1:-1] in written for text in texts)
    assert ("tools" in body) is tools
