"""Qwen, MiniMax and Gemini: Chat Completions with what each vendor does differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from _api import strict
from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.errors import ConfigError, ModelError
from skillopt.messages import Message, Reply, Request, ToolCall
from skillopt.models import PROVIDERS
from skillopt.models.port import Model, ModelSpec
from skillopt.models.wires.chat import without_thinking

HELLO = Request(
    messages=(Message(role="user", content="Hello"),),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="p/1",
)
SENT = [{"role": "user", "content": "Hello"}]
QWEN = ModelSpec(provider="qwen", name="Qwen/Qwen3.5-4B")
MINIMAX = ModelSpec(provider="minimax", name="MiniMax-M3", api_key="key-0123456789")
GEMINI = ModelSpec(provider="gemini", name="gemini-3.5-flash", api_key="key-0123456789")
EXTENSIONS = {
    "qwen": ["chat_template_kwargs"],
    "minimax": ["thinking", "reasoning_split"],
    "gemini": ["extra_content"],
}


async def ask(
    spec: ModelSpec,
    request: Request = HELLO,
    answer: Answer | str = "Hi",
    wrong: Misbehaviour | None = None,
    path: str = "/v1",
) -> tuple[Call, Reply]:
    """One call to a server that knows this vendor's own fields and no others."""
    seen: list[Call] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(call)
        return wrong

    async with LoopbackProvider(
        lambda _: answer, behave=behave, check=strict(*EXTENSIONS[spec.provider])
    ) as server:
        model: Model = PROVIDERS.get(spec.provider)(replace(spec, base_url=server.url + path))
        try:
            replied = await model.complete(request)
        finally:
            await model.close()
    return seen[0], replied


async def body_of(spec: ModelSpec, request: Request = HELLO) -> Any:
    call, _ = await ask(spec, request)
    return call.body


KNOBS = {"temperature": 0.0, "top_p": 0.9, "seed": 0, "reasoning_effort": "low"}


@pytest.mark.parametrize("knob", KNOBS)
@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        (QWEN, {"model": "Qwen/Qwen3.5-4B", "messages": SENT, "max_tokens": 64}),
        (GEMINI, {"model": "gemini-3.5-flash", "messages": SENT, "max_tokens": 64}),
        (
            MINIMAX,
            {"model": "MiniMax-M3", "messages": SENT, "max_completion_tokens": 64, "reasoning_split": True},
        ),
    ],
    ids=lambda value: value.provider if isinstance(value, ModelSpec) else "",
)
async def test_each_knob_that_is_set_is_sent_under_its_name_or_refused(
    spec: ModelSpec, golden: Any, knob: str
) -> None:
    assert await body_of(spec) == golden
    spec = replace(spec, **{knob: KNOBS[knob]})  # type: ignore[arg-type]
    if spec.provider == "minimax" and knob in ("seed", "reasoning_effort"):
        with pytest.raises(ConfigError, match=knob):
            await body_of(spec)
        return
    assert await body_of(spec) == {**golden, knob: KNOBS[knob]}
    assert PROVIDERS.get(spec.provider)(spec).fingerprint == {
        "provider": spec.provider,
        "model": spec.name,
        knob: KNOBS[knob],
    }


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {}),
        ({"enable_thinking": None}, {}),
        ({"enable_thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}),
        ({"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ],
)
async def test_qwen_is_told_to_think_or_not_or_nothing_at_all(
    options: dict[str, Any], sent: dict[str, Any]
) -> None:
    spec = replace(QWEN, options=options)
    assert await body_of(spec) == {"model": "Qwen/Qwen3.5-4B", "messages": SENT, "max_tokens": 64, **sent}
    chosen = {name: value for name, value in options.items() if value is not None}
    assert PROVIDERS.get("qwen")(spec).fingerprint == {
        "provider": "qwen",
        "model": "Qwen/Qwen3.5-4B",
        **chosen,
    }


async def test_qwen_needs_no_key_is_at_home_on_this_machine_and_takes_the_newer_name_of_the_cap() -> None:
    assert PROVIDERS.get("qwen")(QWEN).endpoint == "http://localhost:8000"
    call, _ = await ask(QWEN)
    assert "authorization" not in {name.lower() for name in call.headers}
    body = await body_of(replace(QWEN, options={"use_max_completion_tokens": True}, temperature=0.7))
    assert body == {
        "model": "Qwen/Qwen3.5-4B",
        "messages": SENT,
        "max_completion_tokens": 64,
        "temperature": 0.7,
    }


async def test_a_cap_beyond_eight_thousand_tokens_is_sent_as_it_is() -> None:
    for spec, field in ((QWEN, "max_tokens"), (MINIMAX, "max_completion_tokens"), (GEMINI, "max_tokens")):
        asked = replace(spec, cap=64_000)
        assert (await body_of(asked, replace(HELLO, max_tokens=64_000)))[field] == 64_000


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
async def test_thinking_in_the_text_is_not_part_of_the_answer(text: str, said: str) -> None:
    assert without_thinking(text) == said
    _, reply = await ask(QWEN, HELLO, text)
    assert reply.text == said


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {}),
        ({"enable_thinking": True}, {"thinking": {"type": "adaptive"}}),
        ({"enable_thinking": False}, {"thinking": {"type": "disabled"}}),
    ],
)
async def test_minimax_keeps_its_thinking_out_of_the_text_and_is_told_to_think_where_it_is_set(
    options: Any, sent: Any
) -> None:
    golden = {"model": "MiniMax-M3", "messages": SENT, "max_completion_tokens": 64, "reasoning_split": True}
    assert await body_of(replace(MINIMAX, options=options)) == {**golden, **sent}


async def test_minimax_is_asked_for_a_schema_only_where_the_user_says_so() -> None:
    asked = replace(HELLO, schema={"type": "object", "properties": {}, "additionalProperties": False})
    assert "response_format" not in await body_of(MINIMAX, asked)
    assert (await body_of(replace(MINIMAX, structured_output="schema"), asked))["response_format"][
        "type"
    ] == "json_schema"


def test_minimax_has_two_regions() -> None:
    assert PROVIDERS.get("minimax")(MINIMAX).endpoint == "https://api.minimax.io:443"
    assert (
        PROVIDERS.get("minimax")(replace(MINIMAX, options={"region": "cn_zh"})).endpoint
        == "https://api.minimaxi.com:443"
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1000, "unavailable"),
        (1001, "timeout"),
        (1002, "rate_limit"),
        (1004, "auth"),
        (1008, "auth"),
        (1026, "contract"),
        (1039, "rate_limit"),
        (2013, "contract"),
        (2049, "auth"),
        (9999, "unavailable"),
    ],
)
async def test_an_error_that_minimax_sends_with_a_success_status_has_its_kind(code: int, kind: str) -> None:
    body = {"choices": None, "base_resp": {"status_code": code, "status_msg": "so it is"}}
    with pytest.raises(ModelError, match="so it is") as caught:
        await ask(MINIMAX, wrong=Misbehaviour.status(200, body=body))
    assert (caught.value.kind, caught.value.refused) == (kind, True)


async def test_a_minimax_answer_that_reports_success_is_an_answer() -> None:
    choice = {
        "message": {"role": "assistant", "content": "x", "reasoning_details": []},
        "finish_reason": "stop",
    }
    body = {"choices": [choice], "base_resp": {"status_code": 0, "status_msg": ""}}
    _, reply = await ask(MINIMAX, wrong=Misbehaviour.status(200, body=body))
    assert (reply.text, reply.finish) == ("x", "stop")


async def test_gemini_is_asked_at_its_compatible_endpoint() -> None:
    assert PROVIDERS.get("gemini")(GEMINI).endpoint == "https://generativelanguage.googleapis.com:443"
    call, _ = await ask(replace(GEMINI, reasoning_effort="low", seed=3), path="/v1beta/openai/")
    assert call.path == "/v1beta/openai/chat/completions"
    assert call.body == {
        "model": "gemini-3.5-flash",
        "messages": SENT,
        "max_tokens": 64,
        "reasoning_effort": "low",
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("name", "signed"),
    [("gemini-3.5-flash", True), ("gemini-3-pro-preview", True), ("gemini-2.5-pro", False)],
)
async def test_an_earlier_tool_call_goes_back_to_gemini_as_one_without_a_signature(
    name: str, signed: bool
) -> None:
    calls = (ToolCall(id="c1", name="f", arguments="{}"), ToolCall(id="c2", name="f", arguments="{}"))
    talk = (
        *HELLO.messages,
        Message(role="assistant", content="", tool_calls=calls),
        Message(role="tool", content="a", tool_call_id="c1"),
        Message(role="tool", content="b", tool_call_id="c2"),
    )
    first, second = (await body_of(replace(GEMINI, name=name), replace(HELLO, messages=talk)))["messages"][1][
        "tool_calls"
    ]
    mark = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert first.get("extra_content") == (mark if signed else None)
    assert "extra_content" not in second


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (replace(QWEN, options={"enable_thinking": "yes"}), "true or false"),
        (replace(QWEN, options={"thinking": True}), "Did you mean 'enable_thinking'?"),
        (replace(MINIMAX, api_key=None), "MINIMAX_API_KEY"),
        (replace(MINIMAX, options={"region": "global"}), "Did you mean 'global_en'?"),
        (replace(MINIMAX, options={"enable_thinking": 2}), "true or false"),
        (replace(MINIMAX, seed=1), "no seed"),
        (replace(MINIMAX, reasoning_effort="low"), "no reasoning_effort"),
        (replace(GEMINI, api_key=None), "GEMINI_API_KEY"),
        (replace(GEMINI, options={"region": "x"}), "no option 'region'"),
    ],
)
def test_what_cannot_work_is_refused_before_a_call_and_says_what_to_do(spec: ModelSpec, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PROVIDERS.get(spec.provider)(spec)
    assert said in str(caught.value)
