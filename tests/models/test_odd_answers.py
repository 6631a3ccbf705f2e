"""Answers with a success status in an odd dress: read where they hold an answer, an outage where they do not."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import tracemalloc
from typing import Any

import pytest

from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, Tool, as_plain
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec

SEARCH = Tool(name="search", description="Look it up.", parameters={"type": "object", "properties": {}})
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


def answer(content: str | None, **message: Any) -> bytes:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 2, "completion_tokens": 1}
    return json.dumps({"choices": [choice], "usage": usage}, ensure_ascii=False).encode()


async def ask(body: bytes, content_type: str = "application/json", tools: tuple[Tool, ...] = ()) -> Reply:
    """What a compatible server is taken to have said that answers with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    spec = ModelSpec(provider="compatible", name="m", timeout=5.0, base_url=f"http://127.0.0.1:{port}/v1")
    model = PROVIDERS.get("compatible")(spec)
    try:
        reply: Reply = await model.complete(
            Request(
                messages=(Message(role="user", content="Hello"),),
                tools=tools,
                max_tokens=64,
                role="target",
                stage="rollout",
                place="p/1",
            )
        )
        return reply
    finally:
        await model.close()
        server.close()


async def test_a_byte_order_mark_is_no_part_of_an_answer() -> None:
    assert (await ask(b"\xef\xbb\xbf" + answer("café"))).text == "café"


async def test_an_answer_is_read_in_the_encoding_that_it_declares() -> None:
    latin = answer("café").decode().encode("latin-1")
    assert (await ask(latin, "application/json; charset=ISO-8859-1")).text == "café"
    for unknown in ("no-such-one", "rot13", "base64", "undefined"):
        assert (await ask(answer("café"), f"application/json; charset={unknown}")).text == "café"


async def test_bytes_that_are_no_text_are_an_outage_and_not_an_answer_with_other_letters() -> None:
    with pytest.raises(ModelError, match="is no utf-8") as caught:
        await ask(answer("café").decode().encode("latin-1"))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)


async def test_a_call_to_a_tool_that_nobody_offered_is_an_outage_and_not_an_empty_answer() -> None:
    with pytest.raises(ModelError, match="calls 'search', and no tool was offered") as caught:
        await ask(answer(None, tool_calls=[CALL]))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)
    assert caught.value.tokens == (2, 1)


@pytest.mark.parametrize(
    "content", [[], [{"type": "thinking", "thinking": "Hm."}]], ids=["empty", "thinking"]
)
async def test_content_in_parts_without_a_text_is_an_outage_and_not_an_empty_answer(content: object) -> None:
    with pytest.raises(ModelError, match="its content is no text") as caught:
        await ask(answer(content))  # type: ignore[arg-type]
    assert caught.value.kind == "unavailable"
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Paris"}]
    assert (await ask(answer(parts))).text == "Paris"  # type: ignore[arg-type]
    assert (await ask(answer([], tool_calls=[CALL]), tools=(SEARCH,))).tool_calls  # type: ignore[arg-type]


async def test_words_beside_such_a_call_are_the_answer_and_an_offered_tool_may_be_called() -> None:
    assert (await ask(answer("Paris", tool_calls=[CALL]))).text == "Paris"
    assert [
        call.name for call in (await ask(answer(None, tool_calls=[CALL]), tools=(SEARCH,))).tool_calls
    ] == ["search"]


HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n%b\r\n"
MIB = 1 << 20


async def ask_streamed(head: bytes, part: bytes, parts: int) -> tuple[ModelError, int, int]:
    """The error of a call that is answered with so many copies of a part, how many of them the client took, and the
    memory that it needed at most.
    """
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            for _ in range(parts):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
                sent += 1
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    spec = ModelSpec(provider="compatible", name="m", timeout=60.0, base_url=f"http://127.0.0.1:{port}/v1")
    model = PROVIDERS.get("compatible")(spec)
    request = Request(
        messages=(Message(role="user", content="Hello"),),
        max_tokens=64,
        role="target",
        stage="rollout",
        place="p/1",
    )
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            await model.complete(request)
        return caught.value, sent, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        await model.close()
        server.close()


async def test_an_answer_without_end_is_read_up_to_a_limit_and_is_an_outage() -> None:
    error, sent, memory = await ask_streamed(HEAD % (b"200 OK", b""), b" " * MIB, 400)
    assert (error.kind, error.refused) == ("unavailable", False)
    assert "longer than 16 MiB" in str(error)
    assert sent < 64 and memory < 100 * MIB


@pytest.mark.slow
async def test_an_answer_that_grows_when_it_is_unpacked_is_measured_after_unpacking() -> None:
    bomb = gzip.compress(b" " * (400 * MIB), 1)
    assert len(bomb) < 2 * MIB
    error, _, memory = await ask_streamed(HEAD % (b"200 OK", b"Content-Encoding: gzip\r\n"), bomb, 1)
    assert (error.kind, error.refused) == ("unavailable", False)
    assert "longer than 16 MiB" in str(error)
    assert memory < 100 * MIB


async def test_a_refusal_without_end_is_still_the_refusal_that_it_is() -> None:
    error, sent, memory = await ask_streamed(HEAD % (b"429 Slow down", b""), b"x" * MIB, 400)
    assert (error.kind, error.refused) == ("rate_limit", True)
    assert sent < 64 and memory < 200 * MIB


async def test_half_a_surrogate_pair_anywhere_in_an_answer_can_be_stored() -> None:
    half = json.loads('"\\ud800"')
    call = {
        "id": half,
        "type": "function",
        "function": {"name": f"search{half}", "arguments": f'{{"q": "{half}"}}'},
    }
    choice = {"message": {"content": half, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    said = await ask(json.dumps({"model": half, "choices": [choice]}).encode(), tools=(SEARCH,))
    assert said.tool_calls and json.dumps(said, ensure_ascii=False, default=as_plain).encode()
