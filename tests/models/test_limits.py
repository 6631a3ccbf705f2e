"""The limiter: slower after a refusal, patient with what passes, first come first served, and deaf once it is
closed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from skillopt.errors import Interrupted, Kind, ModelError, ProviderDown, Stopped
from skillopt.messages import Message, Reply, Request, Role, Usage
from skillopt.models.stack.limited import Limited, Limiter, Retry, Slots

OK = Reply(text="ok", finish="stop", usage=Usage(input_tokens=1, output_tokens=1))
SHORT = Retry(attempts=6, seconds=100.0, first_delay=0.05)
NO_PAUSE = Retry(attempts=6, seconds=100.0, first_delay=0.0, longest_delay=0.0)


def ask(place: str = "p", role: Role = "target", *, background: bool = False) -> Request:
    return Request(
        messages=(Message(role="user", content="?"),),
        max_tokens=1,
        role=role,
        stage="s",
        place=place,
        background=background,
    )


def error(kind: Kind, retry_after: float | None = None) -> ModelError:
    return ModelError(kind, f"simulated {kind}", retry_after=retry_after, refused=True)


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """Answers, or fails as the script says, one entry an attempt; remembers who was sent when."""

    endpoint = "http://simulated:80"
    fingerprint: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *script: ModelError | None, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.script = list(script)
        self.sent: list[str] = []
        self.at: list[float] = []
        self.open = 0
        self.most = 0
        self.gate: asyncio.Event | None = None
        self._clock = clock

    async def complete(self, request: Request) -> Reply:
        self.sent.append(request.place)
        self.at.append(self._clock())
        failure = self.script.pop(0) if self.script else None
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if failure is not None:
                raise failure
            return OK
        finally:
            self.open -= 1

    async def close(self) -> None:
        """Nothing is open."""


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def limiter(workers: int = 8, retry: Retry = NO_PAUSE, **more: object) -> Limiter:
    return Limiter({"target": workers, "optimizer": workers}, retry, jitter=lambda: 1.0, **more)  # type: ignore[arg-type]


# How often


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "timeout"])
async def test_what_may_pass_is_tried_again_until_it_passes(kind: Kind) -> None:
    provider = Provider(*[error(kind)] * 5)
    assert await limiter().run(provider, ask()) == OK
    assert len(provider.sent) == 6


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "timeout"])
async def test_after_the_last_attempt_the_failure_is_told(kind: Kind) -> None:
    provider = Provider(*[error(kind)] * 50)
    with pytest.raises(ModelError) as failed:
        await limiter().run(provider, ask())
    assert failed.value.kind == kind
    assert len(provider.sent) == 6


@pytest.mark.parametrize("kind", ["contract", "parse", "truncated"])
async def test_what_cannot_pass_is_not_tried_again(kind: Kind) -> None:
    provider = Provider(error(kind))
    with pytest.raises(ModelError):
        await limiter().run(provider, ask())
    assert len(provider.sent) == 1


async def test_the_deadline_ends_the_attempts_before_their_number_does() -> None:
    clock = Clock()

    class Slow(Provider):
        async def complete(self, request: Request) -> Reply:
            clock.now += 40
            return await super().complete(request)

    provider = Slow(*[error("timeout")] * 50)
    with pytest.raises(ModelError):
        await limiter(retry=NO_PAUSE, clock=clock).run(provider, ask())
    assert len(provider.sent) == 3  # at 40, 80 and 120 seconds; patience is 100


async def test_standing_in_line_uses_up_no_patience() -> None:
    clock = Clock()
    one = limiter(workers=1, clock=clock)
    provider = Provider(None, error("unavailable"), None)
    provider.gate = asyncio.Event()
    first = asyncio.ensure_future(one.run(provider, ask("first")))
    second = asyncio.ensure_future(one.run(provider, ask("second")))
    await ticks()
    clock.now += 1_000_000
    provider.gate.set()
    assert await asyncio.gather(first, second) == [OK, OK]
    assert provider.sent == ["first", "second", "second"]


async def test_pauses_double_up_to_the_longest_with_jitter() -> None:
    loop = asyncio.get_running_loop()
    provider = Provider(*[error("unavailable")] * 4, clock=loop.time)
    retry = Retry(attempts=6, seconds=10, first_delay=0.02, longest_delay=0.05)
    await limiter(retry=retry).run(provider, ask())
    pauses = [later - earlier for earlier, later in zip(provider.at, provider.at[1:], strict=False)]
    for pause, least in zip(pauses, (0.02, 0.04, 0.05, 0.05), strict=True):
        assert least * 0.9 <= pause < least + 0.05


# How many at once


async def test_it_starts_at_its_ceiling_and_each_role_has_its_own() -> None:
    two = Limiter({"target": 3, "optimizer": 2}, NO_PAUSE)
    provider = Provider()
    provider.gate = asyncio.Event()
    tasks = [
        asyncio.ensure_future(two.run(provider, ask(f"{role}{n}", role)))
        for n in range(10)
        for role in ("target", "optimizer")
    ]
    await ticks()
    assert sorted(place[:-1] for place in provider.sent) == ["optimizer"] * 2 + ["target"] * 3
    provider.gate.set()
    await asyncio.gather(*tasks)


async def test_a_role_without_a_ceiling_is_held_back_by_nothing() -> None:
    one, provider = Limiter({}, NO_PAUSE), Provider()
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(50)]
    await ticks()
    assert provider.open == 50
    provider.gate.set()
    await asyncio.gather(*tasks)


async def test_a_burst_of_refusals_leaves_open_what_the_endpoint_has_taken() -> None:
    """Eight are asked, three are taken: from then on three are open at once."""
    one = limiter(workers=8, retry=SHORT)

    class Quick(Provider):
        async def complete(self, request: Request) -> Reply:
            if self.script and self.script[0] is not None:
                self.sent.append(request.place)
                raise self.script.pop(0)  # type: ignore[misc]
            return await super().complete(request)

    provider = Quick(*[None] * 3, error("rate_limit"))
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(8)]
    await ticks()
    assert (provider.open, one.window, one.refusals) == (3, 3.0, 1)
    provider.gate.set()
    assert await asyncio.gather(*tasks) == [OK] * 8
    assert provider.most <= 4  # answers have let one more be open meanwhile


async def test_after_a_burst_that_was_refused_as_a_whole_one_is_open_at_a_time() -> None:
    one, provider = limiter(workers=8, retry=SHORT), Provider(*[error("rate_limit")] * 8)
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(8)]
    await ticks()
    burst, provider.gate = provider.gate, asyncio.Event()
    burst.set()
    await asyncio.sleep(0.07)
    assert (one.window, provider.open) == (1.0, 1)
    provider.gate.set()
    await asyncio.gather(*tasks)


async def test_answers_let_more_be_open_up_to_what_was_open_before() -> None:
    one, provider = limiter(workers=8), Provider(*[error("rate_limit")] * 8)
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(8)]
    await ticks()
    provider.gate.set()
    await asyncio.gather(*tasks)
    grown = []
    for _ in range(200):
        await one.run(Provider(), ask())
        grown.append(one.window)
    assert grown == sorted(grown)
    assert grown[0] < 4  # by and by
    assert grown[-1] == math.inf


@pytest.mark.parametrize("kind", ["unavailable", "timeout"])
async def test_other_failures_do_not_slow_it_down(kind: Kind) -> None:
    one = limiter()
    await one.run(Provider(error(kind)), ask())
    assert one.window == math.inf


async def test_retry_after_holds_everybody_back() -> None:
    loop = asyncio.get_running_loop()
    one = Limiter({"target": 4}, Retry(attempts=3, seconds=5, first_delay=0.0), clock=loop.time)
    provider = Provider(error("rate_limit", retry_after=0.15), clock=loop.time)
    first = asyncio.ensure_future(one.run(provider, ask("first")))
    await ticks()
    others = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(3)]
    await asyncio.gather(first, *others)
    assert min(provider.at[1:]) - provider.at[0] >= 0.145


async def test_a_hold_that_is_prolonged_is_kept_to_its_end() -> None:
    loop = asyncio.get_running_loop()

    class Sluggish(Provider):
        async def complete(self, request: Request) -> Reply:
            if request.place == "sluggish" and len(self.sent) < 2:
                await asyncio.sleep(0.03)
            return await super().complete(request)

    one = Limiter({"target": 4}, Retry(attempts=3, seconds=5, first_delay=0.0), clock=loop.time)
    provider = Sluggish(
        error("rate_limit", retry_after=0.08), error("rate_limit", retry_after=0.2), clock=loop.time
    )
    both = [asyncio.ensure_future(one.run(provider, ask(place))) for place in ("sluggish", "quick")]
    await ticks()
    # waits for the first hold when the second is heard of
    late = asyncio.ensure_future(one.run(provider, ask("late")))
    await asyncio.gather(late, *both)
    assert provider.sent[:2] == ["quick", "sluggish"]
    assert min(provider.at[2:]) - provider.at[1] >= 0.195


async def test_a_provider_that_asks_to_wait_for_hours_ends_the_call_and_does_not_hang_the_others() -> None:
    loop = asyncio.get_running_loop()
    one = Limiter({"target": 4}, Retry(attempts=3, seconds=0.1, first_delay=0.0), clock=loop.time)
    provider = Provider(error("rate_limit", retry_after=7200.0))
    with pytest.raises(ModelError, match="rate_limit"):
        await one.run(provider, ask())
    assert await asyncio.wait_for(one.run(provider, ask()), 2) == OK


async def test_refusals_while_others_are_worked_on_use_up_no_attempts() -> None:
    """Another program with the same key may take what was refilled, again and again."""
    one = limiter(workers=8)
    slow = Provider()
    slow.gate = asyncio.Event()
    under_way = asyncio.ensure_future(one.run(slow, ask("slow")))
    more = asyncio.ensure_future(one.run(slow, ask("more")))
    await ticks()
    provider = Provider(*[error("rate_limit")] * 20)
    unlucky = asyncio.ensure_future(one.run(provider, ask("unlucky")))
    while len(provider.sent) < 20:
        await ticks()
        one.window = 3.0  # as answers would have let it grow
        one._wake()
    slow.gate.set()
    assert await asyncio.gather(unlucky, under_way, more) == [OK] * 3
    assert len(provider.sent) == 21


async def test_a_short_wait_that_is_told_again_and_again_uses_up_no_attempts() -> None:
    """Another process with the same key was quicker each time; who is refused for longer is given up."""
    patient, quick = (Retry(attempts=3, seconds=100.0, first_delay=delay) for delay in (20.0, 0.02))
    provider = Provider(*[error("rate_limit", 0.001) for _ in range(12)])
    assert await Limiter({"target": 1}, patient).run(provider, ask()) is OK
    assert len(provider.sent) == 13
    for_ever = Provider(*[error("rate_limit", 0.001) for _ in range(5000)])
    with pytest.raises(ModelError):
        await Limiter({"target": 1}, quick).run(for_ever, ask())


async def test_without_a_word_of_the_provider_everybody_waits_ever_longer() -> None:
    loop = asyncio.get_running_loop()
    provider = Provider(*[error("rate_limit")] * 3, clock=loop.time)
    one = limiter(retry=Retry(attempts=6, seconds=10, first_delay=0.02, longest_delay=0.5))
    await asyncio.gather(*(one.run(provider, ask(f"p{n}")) for n in range(1)), one.run(provider, ask("q")))
    pauses = [later - earlier for earlier, later in zip(provider.at, provider.at[1:], strict=False)]
    assert sum(pauses) >= 0.02 + 0.04


async def test_it_says_how_far_it_slowed_down_and_why() -> None:
    clock = Clock()
    one = limiter(workers=8, clock=clock)
    assert one.slowed() == ""
    provider = Provider(None, None, *[error("rate_limit", retry_after=3.0)] * 2)
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(4)]
    await ticks()
    provider.gate.set()
    await ticks()
    assert (
        one.slowed() == "at most 1 calls at once, waiting 3 s as told, after 2 refused: simulated rate_limit"
    )
    one.close(Stopped("enough"))
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_provider_that_found_another_way_to_ask_is_asked_again_at_once() -> None:
    changed = ModelError("contract", "no such form", refused=True, again=True)
    provider = Provider(*[changed] * 2)
    one = limiter(retry=Retry(attempts=1, first_delay=1000))
    assert await asyncio.wait_for(one.run(provider, ask()), 5) == OK
    assert len(provider.sent) == 3


# In which order


async def test_first_come_first_served_and_background_last() -> None:
    one = limiter(workers=1)
    provider = Provider()
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask("running")))]
    await ticks(2)
    for place, background in (("bg1", True), ("a", False), ("bg2", True), ("b", False), ("c", False)):
        tasks.append(asyncio.ensure_future(one.run(provider, ask(place, background=background))))
        await ticks(2)
    provider.gate.set()
    await asyncio.gather(*tasks)
    assert provider.sent == ["running", "a", "b", "c", "bg1", "bg2"]


async def test_a_retry_keeps_its_place_in_line() -> None:
    class Unhurried(Provider):
        async def complete(self, request: Request) -> Reply:
            try:
                return await super().complete(request)
            finally:
                await asyncio.sleep(0.005)

    one, provider = limiter(workers=1), Unhurried(error("unavailable"))
    await asyncio.gather(*(one.run(provider, ask(place)) for place in ("a", "b", "c", "d")))
    assert provider.sent == [
        "a",
        "b",
        "a",
        "c",
        "d",
    ]  # b had the slot while a paused; nobody else went before it


async def test_a_cancelled_waiter_takes_no_slot_with_it() -> None:
    slots = Slots(1)
    await slots.acquire()
    waiters = [asyncio.ensure_future(slots.acquire()) for _ in range(3)]
    await ticks()
    waiters[0].cancel()
    slots.release()
    waiters[1].cancel()  # was just given the slot, and never ran
    await ticks()
    assert waiters[2].done()
    assert slots.used == 1
    slots.release()
    assert slots.used == 0


async def test_background_takes_a_free_slot_only_when_nobody_waits() -> None:
    slots = Slots(2)
    await slots.acquire(background=True)
    await slots.acquire(background=True)
    late = asyncio.ensure_future(slots.acquire(background=True))
    soon = asyncio.ensure_future(slots.acquire())
    await ticks()
    slots.release()
    await ticks()
    assert (soon.done(), late.done()) == (True, False)
    slots.release()
    await ticks()
    assert late.done()


# The end


async def test_a_dead_login_closes_the_endpoint_for_everybody() -> None:
    one = limiter(workers=1)
    provider = Provider(error("auth"))
    waiting = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(4)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, ProviderDown) for result in results)
    assert "http://simulated:80 refuses the login: simulated auth" in str(results[0])
    assert provider.sent == ["p0"]
    with pytest.raises(ProviderDown):
        await one.run(provider, ask("later"))
    with pytest.raises(ProviderDown):
        await one.run(provider, ask("later", "optimizer"))
    assert provider.sent == ["p0"]


async def test_closing_lets_what_was_sent_end_and_sends_nothing_more() -> None:
    one = limiter(workers=2)
    provider = Provider()
    provider.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(one.run(provider, ask(f"p{n}"))) for n in range(5)]
    await ticks()
    one.close(Stopped("enough"))
    provider.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[:2] == [OK, OK]
    assert all(isinstance(result, Stopped) for result in results[2:])
    assert provider.sent == ["p0", "p1"]


async def test_a_retry_after_closing_is_not_sent() -> None:
    one = limiter(workers=1)
    provider = Provider(error("unavailable"), None)
    provider.gate = asyncio.Event()
    task = asyncio.ensure_future(one.run(provider, ask()))
    await ticks()
    one.close(Stopped("enough"))
    provider.gate.set()
    with pytest.raises(Stopped):
        await task
    assert len(provider.sent) == 1


async def test_a_slot_is_given_back_whatever_happens() -> None:
    one = limiter(workers=1)
    provider = Provider(error("contract"), error("unavailable"), None)
    with pytest.raises(ModelError):
        await one.run(provider, ask())
    assert await one.run(provider, ask()) == OK
    provider.gate = asyncio.Event()
    stuck = asyncio.ensure_future(one.run(provider, ask()))
    await ticks()
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)
    provider.gate = None
    assert await Limited(provider, one).complete(ask()) == OK


async def test_closing_wakes_whoever_sleeps_out_a_pause_or_a_hold_and_nothing_more_is_sent() -> None:
    one = limiter(workers=2, retry=Retry(attempts=6, seconds=600, first_delay=100, longest_delay=100))
    held = Provider(ModelError("rate_limit", "slow down", retry_after=500))
    paused = Provider(error("unavailable"))
    tasks = [
        asyncio.ensure_future(one.run(provider, ask(place)))
        for provider, place in ((paused, "p"), (held, "h"))
    ]
    await ticks()
    # has a slot, waits for the end of the hold
    late = asyncio.ensure_future(one.run(Provider(), ask("late")))
    await ticks()
    one.close(Interrupted("enough"))
    for task in (*tasks, late):
        with pytest.raises(Interrupted):
            await asyncio.wait_for(task, 5)
    assert (held.sent, paused.sent) == (["h"], ["p"])


async def test_closing_tells_the_ledger() -> None:
    told: list[Stopped] = []
    one = limiter(workers=2, on_close=told.append)
    reason = Interrupted("enough")
    one.close(reason)
    one.close(Interrupted("again"))
    assert told == [reason]
