"""The loopback provider is strict, counts like a provider, and misbehaves only when told to."""

from __future__ import annotations

import asyncio
import json
import resource
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from _api import strict
from _loopback.provider import Answer, Call, LoopbackProvider, Misbehaviour, seeded_latency

USER = {"role": "user", "content": "12345678"}
CHAT: dict[str, Any] = {"model": "m", "messages": [USER], "max_tokens": 100}
MESSAGES: dict[str, Any] = {"model": "m", "messages": [USER], "max_tokens": 100}
CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}


RESPONSES: dict[str, Any] = {"model": "m", "input": [USER], "max_output_tokens": 100}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OBJECT, "additionalProperties": False}
ANYTHING = {"type": "object", "properties": {"a": {"type": "array"}}, "additionalProperties": False}


def post(url: str, body: Any, place: str | None = None) -> tuple[int, Any]:
    """One plain request without any of our client code."""
    headers = {"content-type": "application/json"} | ({"x-skillopt-place": place} if place else {})
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_all_apis_answer_with_counted_tokens_and_log_in_order(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    with LoopbackProvider.in_thread(lambda call: f"to {call.place}", log_file=file) as provider:
        status, chat = post(f"{provider.base_url}/chat/completions", CHAT, "a/1;draw=0")
        assert status == 200
        assert chat["choices"][0]["message"]["content"] == "to a/1"
        assert chat["choices"][0]["finish_reason"] == "stop"
        assert chat["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
        status, message = post(f"{provider.url}/v1/messages", {**MESSAGES, "system": "1234"}, "a/2;draw=3")
        assert status == 200
        assert message["content"] == [{"type": "text", "text": "to a/2"}]
        assert message["usage"] == {"input_tokens": 3, "output_tokens": 2}
        status, response = post(f"{provider.base_url}/responses", RESPONSES, "a/3;draw=0")
        assert (status, response["status"]) == (200, "completed")
        assert response["output"][0]["content"] == [
            {"type": "output_text", "text": "to a/3", "annotations": []}
        ]
        assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (2, 2)
    assert [(entry.index, entry.api, entry.place, entry.draw, entry.status) for entry in provider.log] == [
        (0, "chat", "a/1", 0, 200),
        (1, "messages", "a/2", 3, 200),
        (2, "responses", "a/3", 0, 200),
    ]
    assert (provider.calls, provider.tokens, provider.max_in_flight) == (3, 13, 1)
    assert all(entry.ended is not None and entry.ended >= entry.started for entry in provider.log)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["place"], line["digest"], line["output_tokens"]) for line in lines] == [
        (entry.place, entry.digest, entry.output_tokens) for entry in provider.log
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": {}}, "schema"),
        ({"stream": True}, "stream"),
        ({"model": 1}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{**USER, "name": "x"}]}, "name"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": None}]}, "content"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "c1"}]}, "tool_call_id"),
        ({"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALLED]}]}, "c1"),
        ({"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALLED]}, USER]}, "c1"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"seed": 1.0}, "seed"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"tools": []}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "parameters"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs"),
        ({"response_format": {"type": "text"}}, "response_format.type"),
        ({"response_format": {"type": "json_object"}}, "must contain the word 'json'"),
        ({"response_format": {"type": "json_object", "schema": {}}}, "schema"),
        ({"response_format": {"type": "json_schema"}}, "json_schema"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "two words", "schema": OBJECT},
                }
            },
            "name",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "array"}},
                }
            },
            "schema",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": OBJECT, "strict": True},
                }
            },
            "additionalProperties",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": CLOSED, "strict": True},
                }
            },
            "required",
        ),
    ],
)
def test_a_chat_body_a_strict_api_refuses_is_refused_by_the_fields_name(
    change: dict[str, Any], field: str
) -> None:
    with LoopbackProvider.in_thread(lambda _: "never") as provider:
        status, body = post(f"{provider.base_url}/chat/completions", {**CHAT, **change})
    assert status == 400
    assert field in body["error"]["message"]
    assert (provider.log[0].status, provider.tokens) == (400, 0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"seed": 1}, "seed"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"system": ""}, "system"),
        ({"messages": [USER, USER]}, "messages[1].role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": ""}]}, "text"),
        ({"messages": [USER, USED]}, "c1"),
        ({"messages": [USER, USED, USER]}, "c1"),
        ({"output_config": {"effort": "minimal"}}, "effort"),
        ({"tools": [{"name": "f", "description": "x", "parameters": {}}]}, "parameters"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "greater than thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "budget_tokens": 2000}}, "budget_tokens"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "temperature"),
        ({"system": [{"type": "text", "text": "x", "cache_control": {"type": "forever"}}]}, "cache_control"),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
            "maximum of 4",
        ),
        ({"output_config": {"format": {"type": "json_schema", "schema": OBJECT}}}, "additionalProperties"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema", "schema": ANYTHING}}}, "items"),
    ],
)
def test_a_messages_body_a_strict_api_refuses_is_refused_by_the_fields_name(
    change: dict[str, Any], field: str
) -> None:
    with LoopbackProvider.in_thread(lambda _: "never") as provider:
        status, body = post(f"{provider.url}/v1/messages", {**MESSAGES, **change})
    assert status == 400
    assert field in body["error"]["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messages": [USER]}, "messages"),
        ({"stream": True}, "stream"),
        ({"seed": 1}, "seed"),
        ({"max_output_tokens": 15}, "max_output_tokens"),
        ({"input": []}, "input"),
        ({"input": [{"role": "tool", "content": "x"}]}, "role"),
        ({"input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}]}, "c1"),
        ({"input": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}]}, "c1"),
        (
            {
                "input": [
                    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
                ]
            },
            "id",
        ),
        ({"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "type"),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_image", "image_url": "data:image/png;base64,x"}],
                    }
                ]
            },
            "detail",
        ),
        ({"reasoning": {"effort": "enormous"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "summary"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "strict"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}, "strict": False}]},
            "function",
        ),
        ({"text": {"format": {"type": "json_object"}}}, "must contain the word 'json'"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": OBJECT, "strict": True}}},
            "additionalProperties",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_a_responses_body_a_strict_api_refuses_is_refused_by_the_fields_name(
    change: dict[str, Any], field: str
) -> None:
    with LoopbackProvider.in_thread(lambda _: "never") as provider:
        status, body = post(f"{provider.base_url}/responses", {**RESPONSES, **change})
    assert status == 400
    assert field in body["error"]["message"]


def test_a_vendors_own_fields_are_taken_where_the_server_is_that_vendors_and_checked() -> None:
    with LoopbackProvider.in_thread(
        lambda _: "ok", check=strict("chat_template_kwargs", "thinking")
    ) as provider:
        url = f"{provider.base_url}/chat/completions"
        assert (
            post(
                url,
                {
                    **CHAT,
                    "chat_template_kwargs": {"enable_thinking": False},
                    "thinking": {"type": "adaptive"},
                },
            )[0]
            == 200
        )
        assert post(url, {**CHAT, "chat_template_kwargs": {"enable_thinking": "no"}})[0] == 400
        assert post(url, {**CHAT, "thinking": {"type": "enabled"}})[0] == 400
        assert post(url, {**CHAT, "reasoning_split": True})[0] == 400


def test_a_missing_cap_another_path_and_a_wrong_key_are_refused() -> None:
    with LoopbackProvider.in_thread(lambda _: "never", api_key="right") as provider:
        assert post(f"{provider.url}/v1/other", CHAT)[0] == 404
        assert post(f"{provider.base_url}/chat/completions", CHAT)[0] == 401
    with LoopbackProvider.in_thread(lambda _: "never") as provider:
        uncapped = {"model": "m", "messages": [USER]}
        status, body = post(f"{provider.url}/v1/messages", uncapped)
        assert (status, "max_tokens" in body["error"]["message"]) == (400, True)
        assert post(f"{provider.base_url}/chat/completions", uncapped)[0] == 200  # its own limit holds there


def test_the_cap_holds_whatever_the_answer_is() -> None:
    answers = iter(["0123456789", Answer(text="x" * 99, output_tokens=50), Answer(text="ééééé")])
    with LoopbackProvider.in_thread(lambda _: next(answers)) as provider:
        for text in ("01234567", "xxxxxxxx", "éééé"):
            _, body = post(f"{provider.base_url}/chat/completions", {**CHAT, "max_tokens": 2})
            assert (body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"]) == (
                text,
                "length",
            )
            assert body["usage"]["completion_tokens"] == 2


def test_a_prompt_of_megabytes_is_read() -> None:
    with LoopbackProvider.in_thread(lambda _: "ok") as provider:
        long = {**CHAT, "messages": [{"role": "user", "content": "x" * 4_000_000}]}
        assert post(f"{provider.base_url}/chat/completions", long)[1]["usage"]["prompt_tokens"] == 1_000_000


def test_a_refused_call_bills_nothing_and_says_when_to_come_back() -> None:
    with LoopbackProvider.in_thread(
        lambda _: "ok", behave=lambda _: Misbehaviour.status(429, retry_after=3)
    ) as provider:
        request = urllib.request.Request(
            f"{provider.base_url}/chat/completions", data=json.dumps(CHAT).encode()
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert (caught.value.code, caught.value.headers["retry-after"]) == (429, "3")
    assert (provider.calls, provider.tokens) == (1, 0)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (Misbehaviour.reset(), 0),
        (Misbehaviour.half(), 200),
        (Misbehaviour.garbage(), 200),
        (Misbehaviour.odd(), 200),
    ],
)
async def test_an_answer_lost_on_the_way_is_billed(wrong: Misbehaviour, status: int) -> None:
    async with (
        LoopbackProvider(lambda _: "12345678", behave=lambda _: wrong) as provider,
        aiohttp.ClientSession() as session,
    ):
        try:
            async with session.post(f"{provider.base_url}/chat/completions", json=CHAT) as response:
                got = await response.read()
        except aiohttp.ClientError as error:
            got = type(error).__name__.encode()
        expected = {
            "reset": b"Client",
            "half": b"ClientPayloadError",
            "garbage": b"<html>",
            "odd": b'{"id": "odd"',
        }
        assert got.startswith(expected[wrong.kind])
        assert (provider.log[0].status, provider.tokens) == (status, 4)


@pytest.mark.timeout(30)
async def test_a_call_that_hangs_is_billed_at_once_and_does_not_hold_up_closing() -> None:
    async with (
        LoopbackProvider(lambda _: "12345678", behave=lambda _: Misbehaviour.hang()) as provider,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(asyncio.TimeoutError):
            async with session.post(
                f"{provider.base_url}/chat/completions", json=CHAT, timeout=aiohttp.ClientTimeout(total=0.1)
            ):
                pass
        assert (provider.log[0].status, provider.tokens) == (None, 4)


async def test_attempts_are_counted_by_place_and_draw() -> None:
    seen: list[tuple[str | None, int]] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append((call.place, call.attempt))
        return Misbehaviour.status(500) if call.attempt == 0 else None

    async with (
        LoopbackProvider(lambda _: "ok", behave=behave) as provider,
        aiohttp.ClientSession() as session,
    ):
        for place in ("a;draw=0", "b;draw=0", "a;draw=0", "a;draw=1"):
            await session.post(
                f"{provider.base_url}/chat/completions", json=CHAT, headers={"x-skillopt-place": place}
            )
    assert seen == [("a", 0), ("b", 0), ("a", 1), ("a", 0)]
    assert [entry.status for entry in provider.log] == [500, 500, 200, 500]


def test_an_error_in_the_tests_own_function_is_raised_where_the_provider_closes() -> None:
    def answer(call: Call) -> str:
        raise LookupError("a bug in the test")

    with (
        pytest.raises(LookupError, match="a bug in the test"),
        LoopbackProvider.in_thread(answer) as provider,
    ):
        assert post(f"{provider.base_url}/chat/completions", CHAT)[0] == 500


def test_seeded_latencies_depend_on_seed_place_and_draw_only() -> None:
    def call(index: int, place: str, draw: int = 0) -> Call:
        return Call(
            index=index, attempt=index, api="chat", body={}, place=place, draw=draw, text="", headers={}
        )

    latency = seeded_latency(1, 0.1, 0.2)
    assert latency(call(0, "a")) == latency(call(9, "a"))
    assert (
        len(
            {
                latency(call(0, "a")),
                latency(call(0, "b")),
                latency(call(0, "a", 1)),
                seeded_latency(2, 0.1, 0.2)(call(0, "a")),
            }
        )
        == 4
    )
    assert all(0.1 <= latency(call(0, str(place))) <= 0.2 for place in range(50))


@pytest.mark.slow
async def test_five_hundred_calls_are_open_at_once_and_cost_little() -> None:
    cpu, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        LoopbackProvider(lambda call: call.place or "", latency=lambda _: 0.5) as provider,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def one(index: int) -> str:
            headers = {"x-skillopt-place": f"p/{index};draw=0"}
            async with session.post(
                f"{provider.base_url}/chat/completions", json=CHAT, headers=headers
            ) as response:
                return str((await response.json())["choices"][0]["message"]["content"])

        assert await asyncio.gather(*map(one, range(500))) == [f"p/{index}" for index in range(500)]
    assert provider.max_in_flight > 400
    assert time.process_time() - cpu < 5
    # Tests before this one may have used more, so only what it adds is counted.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200_000
