"""A real HTTP provider on this machine for tests: answers, counts, and misbehaves when told to.

    async with LoopbackProvider(lambda call: "4") as provider:
        model = compatible.PLUGIN(ModelSpec(provider="compatible", name="m", base_url=provider.base_url))

`stream: true` is answered with server-sent events. As the model of an agent CLI it is `lenient`: the probes
that CLIs send (`HEAD /`, `GET`, `count_tokens`) are answered and not logged. The function scripts tool calls
by what it sees in the call:

    def answer(call: Call) -> str | Answer:
        if not call.results:                                       # texts of the tool results so far
            return Answer(tool_calls=(ToolCall(id="t1", name="Bash", arguments='{"command": "cat
            task.md"}'),))
        return f"The file says {call.results[-1]}"

    with LoopbackProvider.in_thread(answer, lenient=True) as provider:
        claude   ANTHROPIC_BASE_URL=provider.url                   POST /v1/messages, after HEAD /
        codex    model_providers.s.base_url=provider.base_url      POST /v1/responses
        copilot  COPILOT_PROVIDER_BASE_URL=provider.base_url       POST /v1/chat/completions (opencode, qwen:
        likewise)

`call.tools` names the tools on offer, `call.text` is everything the model would read, `call.body` the request
itself, `provider.log` what arrived in which order. A call of a tool that the request declares as free text
(`type: custom`) is written as such, its arguments the text.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

from _loopback.answers import Answer, Api, Call, check_roughly, counted, texts
from _loopback.bodies import break_off, rendered, streamed
from _loopback.http import PLACE_HEADER, Misbehaviour, api_of, keys, place, probed, reset, send
from _loopback.quota import Meter, Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One request. Tokens are what is billed: none for a refused call, all for an answer lost on the way."""

    index: int
    api: str
    place: str | None
    draw: int | None
    digest: str
    """SHA-256 of the body as sent."""
    started: float
    in_flight: int
    """Calls open when it arrived, itself included."""
    status: int | None = None
    """None while open, 0 for a reset connection."""
    input_tokens: int = 0
    output_tokens: int = 0
    ended: float | None = None


Answering: TypeAlias = Callable[[Call], "str | Answer"]
Behaving: TypeAlias = Callable[[Call], "Misbehaviour | None"]
Check: TypeAlias = Callable[[Api, Any], None]
"""Takes the API and the body of a request; raises `ValueError` for a body that this API would refuse."""


class LoopbackProvider:
    """Speaks Chat Completions (also at Azure's and Gemini's paths), Responses and Messages on 127.0.0.1.

    In the running loop: `async with LoopbackProvider(answer) as provider`; in a thread of its own, for
    subprocesses and plain code:
    `with LoopbackProvider.in_thread(answer) as provider`. A body that `check` raises `ValueError` for is
    refused with 400 and its words; unset, a model and a conversation are enough. An error inside `answer`,
    `behave` or `latency` is answered with 500 and raised where the provider is closed. What is over the
    `quota` is refused with 429 and the seconds to wait.
    """

    default_check = staticmethod(check_roughly)
    """The `check` of providers that are given none and are not lenient."""

    def __init__(
        self,
        answer: Answering,
        *,
        behave: Behaving | None = None,
        latency: Callable[[Call], float] | None = None,
        api_key: str | None = None,
        log_file: Path | None = None,
        lenient: bool = False,
        check: Check | None = None,
        quota: Quota | None = None,
    ) -> None:
        self._answer = answer
        self._behave = behave
        self._latency = latency
        self._api_key = api_key
        self._log_file = log_file
        self._lenient = lenient
        self._check: Check = check or (check_roughly if lenient else self.default_check)
        self._meter = None if quota is None else Meter(quota)
        self._lock = threading.Lock()
        self._log: list[Logged] = []
        self._attempts: Counter[tuple[str | None, int | None]] = Counter()
        self._in_flight = 0
        self._runner: web.ServerRunner | None = None
        self.error: Exception | None = None
        self.url = ""
        """Base URL for the Anthropic API."""

    @property
    def base_url(self) -> str:
        """Base URL for Chat Completions and Responses."""
        return f"{self.url}/v1"

    @property
    def log(self) -> list[Logged]:
        """Every request in the order of arrival."""
        with self._lock:
            return list(self._log)

    @property
    def calls(self) -> int:
        """How many requests arrived, the refused ones included."""
        return len(self.log)

    @property
    def tokens(self) -> int:
        """All tokens billed."""
        return sum(entry.input_tokens + entry.output_tokens for entry in self.log)

    @property
    def max_in_flight(self) -> int:
        """The most calls that were open at once."""
        return max((entry.in_flight for entry in self.log), default=0)

    @classmethod
    @contextlib.contextmanager
    def in_thread(cls, answer: Answering, **options: Any) -> Iterator[LoopbackProvider]:
        """The provider on a loop in a thread of its own; takes the constructor's arguments."""
        provider = cls(answer, **options)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loopback-provider", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(provider._open(), loop).result()
            try:
                yield provider
            finally:
                asyncio.run_coroutine_threadsafe(provider._close(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        provider._raise_error()

    async def __aenter__(self) -> LoopbackProvider:
        await self._open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._close()
        if kind is None:
            self._raise_error()

    async def _open(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()  # not request.read(): that refuses bodies over a megabyte
        if self._lenient and (probe := probed(request, raw)) is not None:
            return probe
        entry = self._arrived(request, raw)
        try:
            return await self._respond(request, raw, entry)
        except Exception as error:  # noqa: BLE001 - the test's own functions may raise anything; it is kept and raised on closing
            self.error = self.error or error
            return self._refuse(entry, 500, f"the double failed: {error!r}")
        finally:
            self._left(entry)

    def _arrived(self, request: web.BaseRequest, raw: bytes) -> Logged:
        at, draw = place(request.headers.get(PLACE_HEADER))
        with self._lock:
            self._in_flight += 1
            entry = Logged(
                index=len(self._log),
                api=api_of(request.path) or request.path,
                place=at,
                draw=draw,
                digest=hashlib.sha256(raw).hexdigest(),
                started=time.monotonic(),
                in_flight=self._in_flight,
            )
            self._log.append(entry)
        return entry

    def _note(self, entry: Logged, **changes: Any) -> Logged:
        with self._lock:
            noted = self._log[entry.index] = replace(self._log[entry.index], **changes)
        return noted

    def _left(self, entry: Logged) -> None:
        noted = self._note(entry, ended=time.monotonic())
        with self._lock:
            self._in_flight -= 1
            if self._log_file is not None:
                with self._log_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(noted)) + "\n")

    def _refuse(
        self,
        entry: Logged,
        status: int,
        body: Any,
        retry_after: float | str | None = None,
        left: Mapping[str, str] | None = None,
    ) -> web.Response:
        self._note(entry, status=status)
        return error_answer(status, body, retry_after, left)

    async def _respond(self, request: web.BaseRequest, raw: bytes, entry: Logged) -> web.StreamResponse:
        api = api_of(request.path)
        if request.method != "POST" or api is None:
            return self._refuse(entry, 404, f"there is no {request.method} {request.path}")
        if self._api_key is not None and self._api_key not in keys(request):
            return self._refuse(entry, 401, "incorrect API key provided")
        try:
            body = json.loads(raw)
            self._check(api, body)
        except ValueError as error:
            return self._refuse(entry, 400, str(error))
        call = self._call(api, body, entry, request)
        wrong = self._behave(call) if self._behave is not None else None
        if wrong is not None and wrong.kind == "status":
            return self._refuse(entry, wrong.code, wrong.body, wrong.retry_after)
        said = self._answer(call)
        answer = counted(Answer(text=said) if isinstance(said, str) else said, call)
        left: dict[str, str] = {}
        if self._meter is not None:
            over = self._meter.admit((answer.input_tokens or 0) + (answer.output_tokens or 0))
            left = self._meter.headers()
            if over is not None:
                return self._refuse(entry, 429, over[0], f"{over[1]:.3f}", left)
        # Billed from here on, whatever becomes of the answer on its way.
        self._note(entry, input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
        await asyncio.sleep(self._seconds(call, answer, wrong))
        written = rendered(call, answer)
        if wrong is not None and wrong.kind == "broken_off":
            break_off(written, wrong.body)
        streams = body.get("stream") is True
        content = streamed(api, written, body) if streams else json.dumps(written).encode()
        kind = wrong.kind if wrong is not None else None
        self._note(entry, status=0 if kind == "reset" else 200)
        if kind == "reset":
            reset(request)
            return web.Response()
        if kind == "half":
            return await send(request, content, streams, part=len(content) // 2)
        if kind == "garbage":
            content = b"<html>upstream went away"
        if kind == "odd":
            content = json.dumps({"id": "odd", "object": "something.else", "model": body["model"]}).encode()
        if streams and kind not in ("garbage", "odd"):
            return await send(request, content, streams)
        return web.Response(body=content, content_type="application/json", headers=left)

    def _seconds(self, call: Call, answer: Answer, wrong: Misbehaviour | None) -> float:
        hang = wrong.seconds if wrong is not None else 0.0
        if answer.latency is not None:
            return hang + answer.latency
        return hang + (self._latency(call) if self._latency is not None else 0.0)

    def _call(self, api: Api, body: Mapping[str, Any], entry: Logged, request: web.BaseRequest) -> Call:
        key = (entry.place, entry.draw)
        self._attempts[key] += 1
        return Call(
            index=entry.index,
            attempt=self._attempts[key] - 1,
            api=api,
            body=body,
            place=entry.place,
            draw=entry.draw,
            text="\n".join(texts(api, body)),
            headers=request.headers,
            path=request.path_qs,
        )


def error_answer(
    status: int, body: Any, retry_after: float | str | None = None, left: Mapping[str, str] | None = None
) -> web.Response:
    """A refusal as these APIs write one; `left` are headers on what is left of a quota."""
    headers = {**(left or {}), **({} if retry_after is None else {"retry-after": str(retry_after)})}
    if not isinstance(body, Mapping):
        body = {"error": {"message": body or f"simulated status {status}", "type": "simulated", "code": None}}
    return web.Response(
        status=status, body=json.dumps(dict(body)).encode(), content_type="application/json", headers=headers
    )


def seeded_latency(seed: int, low: float, high: float) -> Callable[[Call], float]:
    """A latency between `low` and `high` seconds that depends on seed, place and draw only."""

    def latency(call: Call) -> float:
        return random.Random(f"{seed}/{call.place}/{call.draw}").uniform(low, high)

    return latency
