"""Chat Completions as sent and read: golden bodies for `openai`, `azure` and `compatible`, and what an answer
becomes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from _loopback.provider import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ConfigError, ModelError
from skillopt.messages import Image, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.models import PROVIDERS
from skillopt.models.port import Model, ModelSpec
from skillopt.models.providers import azure, compatible, openai

SPEC = ModelSpec(provider="openai", name="gpt-x", api_key="key-0123456789")
HELLO = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello")),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="e1/s2/rollout/3",
    draw=4,
)
SENT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
GOLDEN: dict[str, Any] = {"model": "gpt-x", "messages": SENT, "max_completion_tokens": 64}
ADD = Tool(
    name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "number"}}}
)


async def ask(spec: ModelSpec, request: Request, answer: Answer | str = "Hi") -> tuple[Call, Reply]:
    """One call through the provider the spec names: as the loopback provider saw it, and its reply."""
    seen: list[Call] = []

    def reply(call: Call) -> Answer | str:
        seen.append(call)
        return answer

    async with LoopbackProvider(reply) as server:
        model: Model = PROVIDERS.get(spec.provider)(replace(spec, base_url=server.base_url))
        try:
            replied = await model.complete(request)
        finally:
            await model.close()
    return seen[0], replied


async def body_of(spec: ModelSpec, request: Request = HELLO) -> Any:
    call, _ = await ask(spec, request)
    return call.body


async def test_unset_knobs_send_nothing_and_who_asks_stays_out_of_the_body() -> None:
    assert await body_of(SPEC) == GOLDEN


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("temperature", 0.0),
        ("temperature", 0.7),
        ("top_p", 0.9),
        ("seed", 0),
        ("seed", 7),
        ("reasoning_effort", "low"),
    ],
)
@pytest.mark.parametrize("provider", ["openai", "compatible", "azure"])
async def test_each_knob_that_is_set_is_sent_under_its_name_and_changes_the_fingerprint(
    provider: str, knob: str, value: Any
) -> None:
    options = {"auth_mode": "openai_compatible"} if provider == "azure" else {}
    spec = replace(SPEC, provider=provider, options=options, **{knob: value})
    cap = "max_tokens" if provider == "compatible" else "max_completion_tokens"
    assert await body_of(spec) == {"model": "gpt-x", "messages": SENT, cap: 64, knob: value}
    model = PROVIDERS.get(provider)(replace(spec, base_url="https://example.org/v1"))
    at = {"address": "https://example.org/v1"}
    assert model.fingerprint == {"provider": provider, "model": "gpt-x", **at, knob: value}


async def test_tools_and_a_tool_conversation_are_sent_as_the_api_wants_them() -> None:
    talk = (
        Message(role="user", content="1+2?"),
        Message(
            role="assistant", content="", tool_calls=(ToolCall(id="c1", name="add", arguments='{"a": 1}'),)
        ),
        Message(role="tool", content="3", tool_call_id="c1"),
    )
    assert await body_of(SPEC, replace(HELLO, messages=talk, tools=(ADD,))) == {
        "model": "gpt-x",
        "messages": [
            {"role": "user", "content": "1+2?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                ],
            },
            {"role": "tool", "content": "3", "tool_call_id": "c1"},
        ],
        "max_completion_tokens": 64,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds.",
                    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
                },
            }
        ],
    }


async def test_images_are_data_uris_and_only_a_user_can_show_one() -> None:
    image = Image(media_type="image/png", data="iVBORw0K")
    shown = replace(HELLO, messages=(Message(role="user", content="What?", images=(image,)),))
    assert (await body_of(SPEC, shown))["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
            ],
        }
    ]
    with pytest.raises(ModelError) as caught:
        await ask(SPEC, replace(HELLO, messages=(Message(role="system", content="x", images=(image,)),)))
    assert caught.value.kind == "contract"


async def test_the_loopback_host_is_told_place_and_draw_in_a_header() -> None:
    call, _ = await ask(SPEC, replace(HELLO, place="e1/s2;x/ä %41/3"))
    assert (call.place, call.draw) == ("e1/s2;x/ä %41/3", 4)


async def test_a_reply_carries_text_finish_usage_and_the_answering_model() -> None:
    _, reply = await ask(
        SPEC, HELLO, Answer(text="Hi é", input_tokens=20, output_tokens=3, cached=8, reasoning=2)
    )
    usage = Usage(input_tokens=20, output_tokens=3, cached_tokens=8, reasoning_tokens=2)
    assert reply == Reply(text="Hi é", finish="stop", usage=usage, model="gpt-x")


async def test_unreported_usage_is_unknown_and_unreported_details_are_unknown() -> None:
    _, reply = await ask(SPEC, HELLO, Answer(text="Hi", reports_usage=False))
    assert reply.usage is None
    _, reply = await ask(SPEC, HELLO, Answer(text="Hi", input_tokens=1, output_tokens=0))
    assert reply.usage == Usage(input_tokens=1, output_tokens=0)


async def test_an_empty_answer_is_an_answer() -> None:
    _, reply = await ask(SPEC, HELLO, "")
    assert (reply.text, reply.finish) == ("", "stop")


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "refusal"),
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("stop_sequence", "stop"),
        ("model_length", "length"),
        ("sensitive", "refusal"),
    ],
)
async def test_every_finish_reason_is_read(reason: Any, finish: str) -> None:
    assert (await raw(choice({"content": "x"}, reason))).finish == finish


async def test_a_reply_longer_than_the_cap_arrives_cut_with_finish_length() -> None:
    _, reply = await ask(SPEC, replace(HELLO, max_tokens=2), "0123456789")
    assert (reply.text, reply.finish) == ("01234567", "length")
    assert reply.usage is not None
    assert reply.usage.output_tokens == 2


async def test_tool_calls_keep_the_arguments_as_the_model_wrote_them() -> None:
    call = ToolCall(id="c9", name="add", arguments='{"a":  1.0}')
    _, reply = await ask(
        SPEC, replace(HELLO, tools=(ADD,)), Answer(text="", finish="tool_calls", tool_calls=(call,))
    )
    assert (reply.tool_calls, reply.finish) == ((call,), "tool_calls")


async def test_half_a_surrogate_pair_in_an_answer_can_be_stored() -> None:
    _, reply = await ask(SPEC, HELLO, Answer(text=json.loads('"a\\ud800b"'), output_tokens=1))
    assert reply.text.encode() == "a�b".encode()


async def test_text_that_is_no_unicode_is_a_contract_error_and_not_a_crash() -> None:
    with pytest.raises(ModelError) as caught:
        await ask(SPEC, replace(HELLO, messages=(Message(role="user", content="\ud800"),)))
    assert caught.value.kind == "contract"


async def raw(body: Any) -> Reply:
    """What a success status with exactly this body becomes, where a tool is on offer."""
    asked = replace(HELLO, tools=(Tool(name="f", description="", parameters={"type": "object"}),))
    async with LoopbackProvider(lambda _: "", behave=lambda _: Misbehaviour.status(200, body=body)) as server:
        model = openai.PLUGIN(replace(SPEC, base_url=server.base_url))
        try:
            return await model.complete(asked)
        finally:
            await model.close()


def choice(message: Any, finish: Any = "stop") -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": ["x"]},
        {"choices": [{}]},
        choice({"role": "assistant"}),
        choice({"content": 7}),
        choice({"content": [{"type": "text"}]}),
        choice({"content": None, "tool_calls": [{"id": "c1"}]}),
        choice({"content": None, "tool_calls": [{"function": {"name": "f"}}]}),
        {"error": {"message": "upstream failed", "code": 502}},
    ],
)
async def test_a_body_that_is_no_answer_is_an_outage(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        await raw(body)
    assert caught.value.kind == "unavailable"


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        (choice({"content": None}, "length"), "", "length"),
        (
            choice(
                {
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "thinking"},
                        {"type": "text", "text": "b"},
                    ]
                }
            ),
            "ab",
            "stop",
        ),
        (choice({"content": None, "refusal": "No."}), "No.", "refusal"),
        (choice({"refusal": "No."}), "No.", "refusal"),
        (
            choice(
                {"content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}
            ),
            "",
            "tool_calls",
        ),
    ],
)
async def test_what_compatible_servers_write_differently_is_read(body: Any, text: str, finish: str) -> None:
    reply = await raw(body)
    assert (reply.text, reply.finish, reply.usage) == (text, finish, None)


@pytest.mark.parametrize(
    "usage",
    [
        {},
        [],
        {"prompt_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
    ],
)
async def test_usage_that_cannot_be_read_is_unknown_and_not_zero(usage: Any) -> None:
    assert (await raw({**choice({"content": "x"}), "usage": usage})).usage is None


def test_endpoint_and_fingerprint_say_where_and_what_and_never_the_key() -> None:
    model = openai.PLUGIN(replace(SPEC, temperature=0.5))
    assert model.endpoint == "https://api.openai.com:443"
    assert model.fingerprint == {"provider": "openai", "model": "gpt-x", "temperature": 0.5}
    elsewhere = openai.PLUGIN(replace(SPEC, temperature=0.5, base_url="http://[::1]:9/v1"))
    assert elsewhere.endpoint == "http://[::1]:9"
    assert elsewhere.fingerprint == {**model.fingerprint, "address": "http://[::1]:9/v1"}


@pytest.mark.parametrize(
    ("plugin", "spec", "said"),
    [
        (openai.PLUGIN, replace(SPEC, api_key=None), "OPENAI_API_KEY"),
        (openai.PLUGIN, replace(SPEC, api_key="two words"), "blank"),
        (openai.PLUGIN, replace(SPEC, api_key=""), "empty"),
        (openai.PLUGIN, replace(SPEC, base_url="example.org/v1"), "https://host/v1"),
        (openai.PLUGIN, replace(SPEC, base_url="http://h:99999/v1"), "https://host/v1"),
        (openai.PLUGIN, replace(SPEC, base_url="http://h/v1?api-version=1"), "before '?'"),
        (openai.PLUGIN, replace(SPEC, options={"organisation": "x"}), "organisation"),
        (compatible.PLUGIN, replace(SPEC, provider="compatible"), "compatible:gpt-x@http://host/v1"),
        (openai.PLUGIN, replace(SPEC, options={"api": "respones"}), "Did you mean 'responses'?"),
        (openai.PLUGIN, replace(SPEC, seed=1, options={"api": "responses"}), "no seed"),
        (openai.PLUGIN, replace(SPEC, seed=1, name="gpt-5.5-pro"), "no seed"),
        (openai.PLUGIN, replace(SPEC, structured_output="jsn"), "Did you mean 'json'?"),
        (
            azure.PLUGIN,
            replace(SPEC, provider="azure", options={"auth_mod": "openai_compatible"}),
            "Did you mean 'auth_mode'?",
        ),
        (
            azure.PLUGIN,
            replace(SPEC, provider="azure", options={"auth_mode": "openai_compatible"}),
            "AZURE_OPENAI_ENDPOINT",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_a_call_and_says_what_to_do(
    plugin: Any, spec: ModelSpec, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin(spec)
    assert said in str(caught.value)
    assert spec.api_key is None or len(spec.api_key) < 6 or spec.api_key not in str(caught.value)
