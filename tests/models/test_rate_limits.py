"""What a provider says of its limits is kept to; a simulated endpoint on a simulated clock shows how well."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import pytest

from _loopback import Quota
from _loopback.quota import Meter
from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, Usage
from skillopt.models.stack.limited import Limited, Limiter
from skillopt.models.stack.rate_limits import RateLimits, _seconds

T = TypeVar("T")


class InNoTime(asyncio.SelectorEventLoop):
    """An event loop that does not wait: its clock jumps to whatever comes next."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None = None) -> Any:
            self._now += timeout or 0.0
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


def in_no_time(work: Callable[[InNoTime], Awaitable[T]]) -> T:
    loop = InNoTime()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


def request(size: int, number: int = 0, stage: str = "rollout") -> Request:
    return Request(
        messages=(Message(role="user", content="x" * (4 * size)),),
        max_tokens=100,
        role="target",
        stage=stage,
        place=str(number),
    )


class Endpoint:
    """Takes what its quota allows, and tells it in headers, in `Retry-After` or not at all."""

    endpoint = "simulated"
    fingerprint: Mapping[str, str] = MappingProxyType({})

    def __init__(self, quota: Quota, loop: InNoTime, *, latency: float, tells: str) -> None:
        self.meter = Meter(quota, clock=loop.time)
        self.limits = RateLimits(loop.time)
        self.refused: Counter[str] = Counter()
        self._latency, self._tells, self._chance = latency, tells, random.Random(0)

    async def complete(self, request: Request) -> Reply:
        tokens = len(request.messages[0].content) // 4
        mark = self.limits.mark()
        await asyncio.sleep(0.005)
        over = self.meter.admit(tokens)
        headers = self.meter.headers() if self._tells == "headers" else {}
        await asyncio.sleep(0.015 if over else self._latency * self._chance.uniform(0.5, 1.5))
        self.limits.update(headers, mark)
        if over is not None:
            self.refused[request.place] += 1
            after = {"nothing": None, "seconds": float(math.ceil(over[1]))}.get(self._tells, over[1])
            raise ModelError("rate_limit", over[0], retry_after=after, refused=True)
        return Reply(text="ok", finish="stop", usage=Usage(input_tokens=tokens, output_tokens=0))

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Ended:
    """How a simulated session went."""

    seconds: float
    refused: int
    most_refused: int
    """The most often one call was refused."""
    others: int
    """Calls of another program with the same key that were admitted."""


def session(
    quota: Quota,
    sizes: Sequence[int],
    *,
    latency: float,
    workers: int = 24,
    tells: str = "headers",
    others: float = 0.0,
) -> Ended:
    """Calls of so many tokens, so many at once. `others` is the share of the requests a second that another
    program takes.
    """

    async def work(loop: InNoTime) -> Ended:
        endpoint = Endpoint(quota, loop, latency=latency, tells=tells)
        limiter = Limiter({"target": workers}, clock=loop.time, jitter=random.Random(0).random)
        model = Limited(endpoint, limiter, endpoint.limits)
        taken = 0

        async def another() -> None:
            nonlocal taken
            while True:
                await asyncio.sleep(1 / (others * (quota.requests_per_second or 1.0)))
                taken += endpoint.meter.admit(1) is None

        rival = loop.create_task(another()) if others else None
        began = loop.time()
        await asyncio.gather(*(model.complete(request(size, number)) for number, size in enumerate(sizes)))
        ended = loop.time() - began
        if rival is not None:
            rival.cancel()
        refused = endpoint.refused
        return Ended(ended, sum(refused.values()), max(refused.values(), default=0), taken)

    return in_no_time(work)


FIVE = Quota(requests_per_second=5, tokens_per_minute=20_000)


@pytest.mark.parametrize("latency", [0.1, 3.0])
@pytest.mark.parametrize("size", [50, 150, 1000])
@pytest.mark.parametrize(
    ("tells", "most", "refusals"),
    [("headers", 1.1, 1.0), ("exactly", 1.1, 2.0), ("seconds", 1.2, 2.5), ("nothing", 1.3, 8.0)],
)
def test_a_quota_is_used_up_and_seldom_overrun(
    size: int, tells: str, most: float, refusals: float, latency: float
) -> None:
    sizes = [size] * (300 if size < 1000 else 80)
    ended = session(FIVE, sizes, latency=latency, tells=tells)
    least = FIVE.least_seconds(len(sizes), sum(sizes)) + latency
    assert ended.seconds <= most * least
    assert ended.refused <= refusals * len(sizes) + 24


@pytest.mark.parametrize("tells", ["headers", "exactly"])
def test_calls_of_changing_size_neither_slow_down_for_good_nor_overrun(tells: str) -> None:
    sizes = [*[100] * 150, *[2000] * 10, *[100] * 150, *[2000] * 10, *[100] * 150]
    ended = session(FIVE, sizes, latency=0.5, tells=tells)
    assert ended.seconds <= 1.2 * (FIVE.least_seconds(len(sizes), sum(sizes)) + 0.5)
    assert ended.most_refused <= 6


@pytest.mark.parametrize("share", [0.2, 0.33])
@pytest.mark.parametrize("tells", ["headers", "exactly"])
def test_another_program_with_the_same_key_costs_no_more_than_what_it_takes(tells: str, share: float) -> None:
    sizes = [50] * 300
    ended = session(FIVE, sizes, latency=0.5, tells=tells, others=share)
    least = FIVE.least_seconds(len(sizes) + ended.others, sum(sizes) + ended.others) + 0.5
    assert ended.seconds <= 1.1 * least


@pytest.mark.parametrize("tells", ["headers", "exactly"])
def test_two_programs_with_the_same_key_both_get_on(tells: str) -> None:
    async def work(loop: InNoTime) -> list[int]:
        meter = Meter(FIVE, clock=loop.time)
        answered = [0, 0]

        async def program(number: int) -> None:
            endpoint = Endpoint(FIVE, loop, latency=0.2, tells=tells)
            endpoint.meter = meter
            chance = random.Random(number)
            limiter = Limiter({"target": 24}, clock=loop.time, jitter=chance.random)
            model = Limited(endpoint, limiter, endpoint.limits)

            async def ask() -> None:
                while True:
                    await model.complete(request(150))
                    answered[number] += 1

            await asyncio.gather(*(ask() for _ in range(24)))

        both = [loop.create_task(program(number)) for number in (0, 1)]
        await asyncio.sleep(300)
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        return answered

    answered = in_no_time(work)
    least = FIVE.least_seconds(sum(answered), 150 * sum(answered))
    assert min(answered) >= 0.3 * sum(answered), answered
    assert least >= 0.95 * 300


def test_an_endpoint_that_says_nothing_is_never_held_back() -> None:
    limits = RateLimits()
    for _ in range(1000):
        limits.update({"content-type": "application/json"}, limits.mark())
        assert limits.wait(request(100)) == 0.0
        limits.send(request(100))


@pytest.mark.parametrize(
    "headers",
    [
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "1m0s",
        },
        {
            "anthropic-ratelimit-requests-limit": "60",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "+60",
        },
    ],
)
def test_what_is_left_when_an_answer_comes_is_what_was_left_when_it_was_sent_and_what_happened_since(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    limits = RateLimits(lambda: now[0])
    monkeypatch.setattr("skillopt.models.stack.rate_limits.time.time", lambda: 0.0)
    headers = {name: "1970-01-01T00:01:00Z" if value == "+60" else value for name, value in headers.items()}
    mark = limits.mark()
    now[0] = 3.0  # three have been refilled since it was sent
    limits.update(headers, mark)
    assert limits.wait(request(1)) == 0.0
    for _ in range(3):
        limits.send(request(1))
    assert limits.wait(request(1)) == pytest.approx(1.0)
    later = limits.mark()
    limits.send(request(1))
    now[0] = 4.0
    limits.update(headers, later)  # it says nothing of the one that was sent after it
    assert limits.wait(request(1)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1s", 1.0), ("6m0s", 360.0), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("7.66s", 7.66), ("12", 12.0)],
)
def test_the_time_until_a_limit_is_full_is_read_as_providers_write_it(written: str, seconds: float) -> None:
    assert _seconds(written) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["soon", "", "-", "nan"])
def test_headers_that_cannot_be_read_hold_nothing_back(value: str) -> None:
    limits = RateLimits()
    names = ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens")
    limits.update(dict.fromkeys(names, value), limits.mark())
    limits.update({names[0]: "5"}, limits.mark())
    assert limits.wait(request(100)) == 0.0
