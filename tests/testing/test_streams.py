"""The loopback provider as an agent CLI's model: what it streams is read by the vendors' own SDKs, the
strictest readers there are.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from skillopt.messages import ToolCall

pytestmark = pytest.mark.slow

CALL = ToolCall(id="t1", name="Bash", arguments='{"command": "ls"}')
ASKED = [{"role": "user", "content": "List the files."}]


def scripted(call: Call) -> str | Answer:
    """Calls the tool first and then says what it gave."""
    if not call.results:
        return Answer(
            text="Looking.", tool_calls=(CALL,), input_tokens=50, output_tokens=7, cached=40, reasoning=3
        )
    return f"{call.tools[0]} gave {call.results[-1]}"


@pytest.fixture
async def provider() -> AsyncIterator[LoopbackProvider]:
    async with LoopbackProvider(scripted, lenient=True) as running:
        yield running


async def test_messages_stream_as_the_anthropic_sdk_reads_them(provider: LoopbackProvider) -> None:
    tools: Any = [
        {
            "name": "Bash",
            "description": "Runs.",
            "input_schema": {"type": "object"},
            "eager_input_streaming": True,
        }
    ]
    import anthropic  # a second of CPU, so not while tests are collected

    async with anthropic.AsyncAnthropic(api_key="k", base_url=provider.url, max_retries=0) as client:
        asked: Any = list(ASKED)
        async with client.messages.stream(
            model="m", max_tokens=100, messages=asked, tools=tools, metadata={"user_id": "u"}
        ) as stream:
            first = await stream.get_final_message()
        said, called = first.content
        assert (said.type, getattr(said, "text", ""), first.stop_reason) == ("text", "Looking.", "tool_use")
        assert (called.type, getattr(called, "input", None)) == ("tool_use", {"command": "ls"})
        assert (first.usage.input_tokens, first.usage.cache_read_input_tokens, first.usage.output_tokens) == (
            10,
            40,
            7,
        )
        asked += [
            {
                "role": "assistant",
                "content": [block.model_dump(exclude_none=True) for block in first.content],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "a.md"}],
                    }
                ],
            },
        ]
        async with client.messages.stream(model="m", max_tokens=100, messages=asked, tools=tools) as stream:
            assert await stream.get_final_text() == "Bash gave a.md"


@pytest.mark.slow
async def test_responses_stream_as_the_openai_sdk_reads_them(provider: LoopbackProvider) -> None:
    tools: Any = [{"type": "function", "name": "Bash", "parameters": {"type": "object"}, "strict": False}]
    import openai

    async with openai.AsyncOpenAI(api_key="k", base_url=provider.base_url, max_retries=0) as client:
        asked: Any = list(ASKED)
        more: Any = {
            "instructions": "You are an agent.",
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "x",
        }
        async with client.responses.stream(model="m", input=asked, tools=tools, **more) as stream:
            first = await stream.get_final_response()
        assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
        assert (first.output_text, first.output[2].arguments) == ("Looking.", CALL.arguments)  # type: ignore[union-attr]
        assert first.usage is not None
        assert (first.usage.input_tokens, first.usage.output_tokens_details.reasoning_tokens) == (50, 3)
        asked += [{"type": "function_call", "call_id": "t1", "name": "Bash", "arguments": CALL.arguments}]
        asked += [{"type": "function_call_output", "call_id": "t1", "output": "a.md"}]
        async with client.responses.stream(model="m", input=asked, tools=tools) as stream:
            assert (await stream.get_final_response()).output_text == "Bash gave a.md"


async def test_chat_completions_stream_as_the_openai_sdk_reads_them(provider: LoopbackProvider) -> None:
    tools: Any = [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}]
    import openai

    async with openai.AsyncOpenAI(api_key="k", base_url=provider.base_url, max_retries=0) as client:
        asked: Any = list(ASKED)
        options: Any = {"stream_options": {"include_usage": True}, "parallel_tool_calls": False}
        async with client.chat.completions.stream(
            model="m", messages=asked, tools=tools, **options
        ) as stream:
            first = await stream.get_final_completion()
        message = first.choices[0].message
        assert (message.content, first.choices[0].finish_reason) == ("Looking.", "tool_calls")
        assert message.tool_calls is not None
        assert message.tool_calls[0].function.arguments == CALL.arguments
        assert first.usage is not None
        assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (50, 7)
        asked += [
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": "t1", "content": "a.md"},
        ]
        async with client.chat.completions.stream(model="m", messages=asked, tools=tools) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == "Bash gave a.md"


async def test_a_tool_that_takes_free_text_is_called_with_free_text() -> None:
    patch = ToolCall(id="p1", name="apply_patch", arguments="*** Begin Patch\n*** End Patch")
    body = {
        "model": "m",
        "input": "Fix it.",
        "tools": [{"type": "custom", "name": "apply_patch"}],
        "stream": True,
    }
    async with (
        LoopbackProvider(lambda _: Answer(tool_calls=(patch,)), lenient=True) as provider,
        aiohttp.ClientSession() as session,
        session.post(f"{provider.base_url}/responses", json=body) as response,
    ):
        frames = [
            json.loads(line[6:]) for line in (await response.text()).splitlines() if line.startswith("data: ")
        ]
    done = next(frame["item"] for frame in frames if frame["type"] == "response.output_item.done")
    assert (done["type"], done["input"], done["call_id"]) == ("custom_tool_call", patch.arguments, "p1")
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))


async def test_a_cut_answer_ends_the_stream_as_incomplete() -> None:
    import openai

    async with (
        LoopbackProvider(lambda _: "0123456789", lenient=True) as provider,
        openai.AsyncOpenAI(api_key="k", base_url=provider.base_url, max_retries=0) as client,
    ):
        events = [
            event
            async for event in await client.responses.create(
                model="m", input="x", max_output_tokens=2, stream=True
            )
        ]
    last = events[-1]
    assert last.type == "response.incomplete"
    assert (last.response.status, last.response.output_text) == ("incomplete", "01234567")
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


async def test_what_agent_clis_probe_is_answered_and_is_no_call(provider: LoopbackProvider) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.head(provider.url) as response:
            assert response.status == 200
        async with session.get(f"{provider.base_url}/models") as response:
            assert (await response.json())["data"] == []
        asked = {
            "model": "m",
            "system": [{"type": "text", "text": "1234"}],
            "messages": [{"role": "user", "content": "12345678"}],
        }
        async with session.post(f"{provider.url}/v1/messages/count_tokens?beta=true", json=asked) as response:
            assert await response.json() == {"input_tokens": 3}
    assert provider.calls == 0


async def test_nothing_of_this_is_taken_from_our_own_providers() -> None:
    async with LoopbackProvider(lambda _: "x") as provider, aiohttp.ClientSession() as session:
        for method, path, body in (
            ("HEAD", "/", None),
            ("GET", "/v1/models", None),
            ("POST", "/v1/messages/count_tokens", {}),
            ("POST", "/v1/messages", {"model": "m", "max_tokens": 1, "messages": ASKED, "stream": True}),
        ):
            async with session.request(method, f"{provider.url}{path}", json=body) as response:
                assert response.status in (400, 404)


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
async def test_a_stream_breaks_as_told_and_is_billed(path: str) -> None:
    body = (
        {"model": "m", "input": ASKED}
        if path == "responses"
        else {"model": "m", "messages": ASKED, "max_tokens": 9}
    )
    for wrong, seen in (
        (Misbehaviour.half(), "data: "),
        (Misbehaviour.reset(), ""),
        (Misbehaviour.garbage(), "<html>"),
    ):
        async with LoopbackProvider(
            lambda _: "12345678", lenient=True, behave=lambda _, wrong=wrong: wrong
        ) as provider:  # type: ignore[misc]
            got, broken = b"", False
            try:
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(f"{provider.base_url}/{path}", json={**body, "stream": True}) as response,
                ):
                    async for piece in response.content.iter_any():
                        got += piece
            except aiohttp.ClientError:
                broken = True
            assert broken is (wrong.kind != "garbage")
            assert seen in got.decode()
            assert b"[DONE]" not in got
            assert b"message_stop" not in got
            assert b"response.completed" not in got
            assert provider.log[0].output_tokens == 2
