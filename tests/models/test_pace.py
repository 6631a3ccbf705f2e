"""The pace of calls is learned from refusals alone; a simulated endpoint and a simulated clock
show how well.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from skillopt.messages import Message, Request, Usage
from skillopt.models.stack.pace import Pace, Sent
from skillopt.testing import Quota
from skillopt.testing._quota import Meter


@dataclass
class Ended:
    """How a simulated session went."""

    seconds: float
    refused: int
    most_refused: int
    """The most often one call was refused."""


def request(size: int, stage: str = "rollout") -> Request:
    return Request(
        messages=(Message(role="user", content="x" * (4 * size)),),
        max_tokens=100,
        role="target",
        stage=stage,
        place="p",
    )


def session(
    quota: Quota,
    sizes: Sequence[int],
    *,
    latency: float,
    workers: int = 24,
    tells: str = "exactly",
    names: bool = True,
    seed: int = 0,
) -> Ended:
    """Send calls of so many tokens as a limiter would: one at a time waits for the pace, refused ones go
    first after the hold.
    """
    now, hold = 0.0, 0.0
    pace, meter, chance = Pace(), Meter(quota, clock=lambda: now), random.Random(seed)
    waiting = deque(enumerate(sizes))
    heard: list[tuple[float, int, Sent | None, tuple[str, float] | None]] = []
    """What will be heard when: an answer, a refusal, or (without `Sent`) the end of a refused call's own
    pause.
    """
    refusals: dict[int, int] = {}
    flying = 0
    behind: int | None = None
    while waiting or heard:
        while heard and heard[0][0] <= now:
            at, number, sent, over = heapq.heappop(heard)
            flying -= sent is not None
            if sent is None:
                waiting.appendleft((number, sizes[number]))
            elif over is None:
                pace.arrived(sent, Usage(input_tokens=sizes[number], output_tokens=0))
            else:
                refusals[number] = refusals.get(number, 0) + 1
                pace.refused(sent, over[0] if names else "too many requests", at)
                told = {"exactly": over[1], "seconds": math.ceil(over[1]), "nothing": 0.0}[tells]
                hold = max(hold, at + told)
                heapq.heappush(
                    heard, (at + max(told, 0.375 * 2 ** (refusals[number] - 1)), number, None, None)
                )
        if not waiting or flying >= workers:
            now = heard[0][0] if heard else now
            continue
        number, size = waiting[0]
        seconds, flow = pace.wait(request(size), now, refusals.get(number, 0))
        behind = flow if flow is not None else behind
        held = hold - now > 0
        seconds = max(seconds, hold - now)
        if seconds > 0:
            step = max(min(seconds, heard[0][0] - now if heard else seconds), 1e-6)
            pace.waited(step, None if held else flow)
            now += step
            continue
        waiting.popleft()
        sent, behind = pace.send(request(size), now, behind), None
        over = meter.admit(size)
        flying += 1
        heapq.heappush(
            heard,
            (now + (0.02 if over is not None else latency * chance.uniform(0.5, 1.5)), number, sent, over),
        )
        now += 0.001
    return Ended(now, sum(refusals.values()), max(refusals.values(), default=0))


FIVE = Quota(requests_per_second=5, tokens_per_minute=20_000)


@pytest.mark.parametrize("latency", [0.1, 3.0])
@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("tells", ["exactly", "seconds", "nothing"])
@pytest.mark.parametrize("size", [50, 150, 1000])
def test_a_quota_is_used_up_and_seldom_overrun(size: int, tells: str, names: bool, latency: float) -> None:
    sizes = [size] * (300 if size < 1000 else 80)
    ended = session(FIVE, sizes, latency=latency, tells=tells, names=names)
    least = FIVE.least_seconds(len(sizes), sum(sizes)) + latency
    assert ended.seconds <= 1.3 * least
    assert ended.refused <= 0.35 * len(sizes) + 24
    assert ended.most_refused < 6  # the attempts a call has


@pytest.mark.parametrize("names", [True, False])
def test_calls_of_changing_size_neither_slow_down_for_good_nor_overrun(names: bool) -> None:
    sizes = [*[100] * 150, *[2000] * 10, *[100] * 150, *[2000] * 10, *[100] * 150]
    ended = session(FIVE, sizes, latency=0.5, names=names)
    assert ended.seconds <= 1.3 * (FIVE.least_seconds(len(sizes), sum(sizes)) + 0.5)
    assert ended.refused <= 0.35 * len(sizes)


def test_an_endpoint_that_refuses_nothing_is_never_held_back() -> None:
    pace = Pace()
    for number in range(1000):
        assert pace.wait(request(100), number * 0.001) == (0.0, None)
        pace.arrived(pace.send(request(100), number * 0.001), Usage(input_tokens=100, output_tokens=1))
    assert pace.is_free
    assert pace.calls_a_second() == math.inf


def test_a_lonely_refusal_teaches_nothing() -> None:
    pace = Pace()
    for number in range(5):
        pace.refused(pace.send(request(10), 10.0 * number), "429", 10.0 * number + 0.1)
    assert pace.is_free


@pytest.mark.parametrize(
    ("said", "units"),
    [
        ("HTTP 429: Rate limit reached for m on requests per min (RPM): Limit 3", {"calls"}),
        ("HTTP 429: Rate limit reached for m on tokens per min (TPM): Limit 10000", {"tokens"}),
        (
            "This request would exceed your organization's rate limit of 50,000 input tokens per minute",
            {"tokens"},
        ),
        ("HTTP 429: too many requests", {"calls", "tokens"}),
        ("HTTP 529: overloaded", set()),
        ("HTTP 429: simulated", set()),
    ],
)
def test_the_limit_that_a_refusal_names_is_the_one_that_is_learned(said: str, units: set[str]) -> None:
    pace = Pace()
    sent = [pace.send(request(10), 0.01 * number) for number in range(6)]
    pace.refused(sent[-1], said, 0.1)
    assert {flow.unit for flow in pace.flows if not math.isinf(flow.limit)} == units
    assert pace.flows[0].limit in (
        5.5,
        math.inf,
    )  # within the first second five were taken, and not quite a sixth


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_refusals_now_and_then_that_do_not_come_from_the_pace_do_not_ruin_it(share: float) -> None:
    """As when another program uses the same key: a thousand calls a second are asked for, and a fair part of
    them is sent.
    """
    now, pace, chance = 0.0, Pace(), random.Random(3)
    for _ in range(2000):
        seconds, behind = pace.wait(request(10), now)
        pace.waited(seconds, behind)
        now += seconds + 0.001
        sent = pace.send(request(10), now, behind)
        if chance.random() < share:
            pace.refused(sent, "rate limit exceeded", now)
        else:
            pace.arrived(sent, Usage(input_tokens=10, output_tokens=1))
    assert 2000 / now > 5
    assert pace.calls_a_second() > 5


def test_an_endpoint_that_takes_nothing_at_all_has_no_pace() -> None:
    """An outage must come to light as one, whatever was learned before it."""
    now, pace = 0.0, Pace()
    burst = [pace.send(request(10), 0.01 * number) for number in range(6)]
    pace.refused(burst[-1], "rate limit exceeded", 0.1)
    assert not pace.is_free
    for _ in range(10):
        seconds, behind = pace.wait(request(10), now)
        now += seconds + 0.001
        pace.refused(pace.send(request(10), now, behind), "rate limit exceeded", now)
    assert pace.is_free
    assert now < 60


def test_an_outage_of_allowance_by_somebody_else_is_made_up_for_again() -> None:
    """Another program with the same key eats the quota for a while; when it is gone the pace comes back."""
    now, pace = 0.0, Pace()
    burst = [pace.send(request(10), 0.01 * number) for number in range(6)]
    pace.refused(burst[-1], "requests per second", 0.1)
    for _ in range(4):
        now += 5.0
        pace.waited(5.0, 0)
        pace.refused(pace.send(request(10), now), "requests per second", now + 0.01)
    slow = pace.calls_a_second()
    assert slow < 1.0
    for _ in range(200):
        wait, behind = pace.wait(request(10), now)
        now += wait
        pace.arrived(pace.send(request(10), now, behind), None)
    assert pace.calls_a_second() > 20 * slow
