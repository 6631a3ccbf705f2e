"""Answers with a success status in an odd dress: read where they hold an answer, an outage where they do not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, Tool
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
    assert (await ask(answer("café"), "application/json; charset=no-such-one")).text == "café"


async def test_bytes_that_are_no_text_are_an_outage_and_not_an_answer_with_other_letters() -> None:
    with pytest.raises(ModelError, match="is no utf-8") as caught:
        await ask(answer("café").decode().encode("latin-1"))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)


async def test_a_call_to_a_tool_that_nobody_offered_is_an_outage_and_not_an_empty_answer() -> None:
    with pytest.raises(ModelError, match="calls 'search', and no tool was offered") as caught:
        await ask(answer(None, tool_calls=[CALL]))
    assert (caught.value.kind, caught.value.refused) == ("unavailable", False)
    assert caught.value.tokens == (2, 1)


async def test_words_beside_such_a_call_are_the_answer_and_an_offered_tool_may_be_called() -> None:
    assert (await ask(answer("Paris", tool_calls=[CALL]))).text == "Paris"
    assert [
        call.name for call in (await ask(answer(None, tool_calls=[CALL]), tools=(SEARCH,))).tool_calls
    ] == ["search"]
