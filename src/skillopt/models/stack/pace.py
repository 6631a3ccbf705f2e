"""Decides how quickly calls go to an endpoint that refuses some of them: learned from the refusals, in calls
and in tokens a second.

Between two refusals, while calls are queueing, an endpoint takes exactly what it allows: that is the measure.
Before the first refusal nothing is held back. A limit that is really in the way is tried a little higher with
every call that passes, until the next refusal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from skillopt.messages import Request, Usage

CALLS_SAVED, TOKENS_SAVED = 1.0, 60.0
"""Seconds of unused allowance that an endpoint is believed to save up; halved when that proves wrong."""
IDLE = 1.0
"""Not asked for so long, an endpoint that is free starts a new measure; no first measure is taken over less.
"""
FEW = 3
"""Calls that a measure needs before the next one begins."""
FRUITLESS = 6
"""Bursts of refusals in a row after which an endpoint that took nothing in between is out of order, and has
no pace to be learned.
"""
REMEMBERED = 600.0
"""Seconds for which the best measure sets how boldly more is tried: refusals that others caused would else
make it ever more timid.
"""
QUEUED = 0.5
"""Share of the time in which calls must have queued for what was taken to be all that is allowed."""
MARGIN = 0.5
CERTAINLY_LESS, GIVE_WAY, PROBE, START, FORGET = 0.95, 0.7, 0.003, 1.2, 64.0
_CHARACTERS = 3.0
_ABOUT_PACE = re.compile(
    r"rate.?limit|quota|too.?many|throttl|exhausted|per (?:sec|min|hour|day)|try again"
    r" in|\b(?:[io]?tp|rp)[smd]\b",
    re.IGNORECASE,
)
_NAMED = (
    re.compile(r"requests? per|\brp[smd]\b", re.IGNORECASE),
    re.compile(r"tokens? per|\b[io]?tp[smd]\b", re.IGNORECASE),
)
"""How providers name the limit that refused a call: calls, tokens."""


class Flow:
    """What an endpoint takes of one thing a second; without limit until it refused some of it."""

    def __init__(self, unit: str, saved: float) -> None:
        self.unit = unit
        self.limit = math.inf
        self._saved = saved
        self._level = 0.0
        self._at = 0.0
        self._passed = 0
        self._is_measured = False
        self._best = 0.0
        self._best_at = -math.inf

    @property
    def rate(self) -> float:
        """What is sent a second now: the limit as learned, and a little more with every call that had to wait
        for it and passed.
        """
        if not self._is_measured:
            return self.limit * START**self._passed
        return self.limit + PROBE * self._passed**2 * max(self.limit, self._best)

    def spare(self, amount: float, now: float) -> float:
        """What the allowance leaves after this amount; negative when it has to wait."""
        if math.isinf(self.limit):
            return 0.0
        self._level = min(self._level + self.rate * (now - self._at), max(self.rate * self._saved, amount))
        self._at = now
        return self._level - amount

    def take(self, amount: float) -> None:
        """An amount is sent; a negative one was refused, or not used after all."""
        self._level -= amount

    def passed(self) -> None:
        """A call that had to wait for this limit was taken."""
        self._passed += 1
        if self.rate >= max(self.limit, self._best) * FORGET:
            self.limit = math.inf

    def learn(self, taken: float, before: float, *, queued: bool, sure: bool, now: float) -> None:
        """It was refused, and had taken so much a second at a rate of `before`. Nothing is saved up now.

        What was taken is all it gives if calls `queued`, and is a measure if it is `sure`: many calls, and
        nothing saved up in them.
        """
        if taken <= 0:
            self.limit = before / 2
            self._is_measured = False
        elif queued or math.isinf(before):
            self.limit = min(CERTAINLY_LESS * before, taken)
            self._is_measured = queued and sure and not math.isinf(before)
        else:  # it was not asked for all it gives
            self.limit = min(CERTAINLY_LESS * before, max(taken, GIVE_WAY * before))
        if self._is_measured and (self.limit > self._best or now - self._best_at > REMEMBERED):
            self._best, self._best_at = self.limit, now
        self._passed = 0
        self._level, self._at = 0.0 if math.isinf(before) else min(self._level, 0.0), now

    def count_anew(self, factor: float) -> None:
        """What was counted so far was a guess, and calls turn out to take so many times as much."""
        if not self._is_measured:
            self.limit *= factor

    def saves_less(self) -> None:
        """Allowance that was believed to be saved up was not there."""
        self._saved = max(self._saved / 2, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One call on its way, as the pace counts it."""

    at: float
    number: int
    """How many were sent before it."""
    kind: tuple[str, str]
    size: int
    amounts: tuple[float, ...]
    had_spare: tuple[bool, ...]
    """For each flow whether as much again could have been sent."""
    behind: int | None
    """Which flow it had to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What had been sent and not refused at a moment, and for how long calls had queued."""

    at: float
    number: int = 0
    """How many calls had been sent, the refused ones included."""
    totals: tuple[float, ...] = (0.0, 0.0)
    queued: tuple[float, ...] = (0.0, 0.0)
    is_refusal: bool = False


class Pace:
    """The pace of one endpoint. Every call asks when it may go, and tells how it went."""

    def __init__(self) -> None:
        self.flows = (Flow("calls", CALLS_SAVED), Flow("tokens", TOKENS_SAVED))
        self._queued: tuple[float, ...] = (0.0, 0.0)
        self._totals: tuple[float, ...] = (0.0, 0.0)
        self._number = 0
        self._density: dict[tuple[str, str], float] = {}
        self._last = -math.inf
        self._start = self._burst = Mark(at=-math.inf)
        self._before: tuple[float, ...] = ()
        self._refused: tuple[float, ...] = ()
        self._fruitless = 0
        self._blamed: tuple[int, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether nothing is held back."""
        return all(math.isinf(flow.limit) for flow in self.flows)

    def calls_a_second(self) -> float:
        """How many calls of the usual size all flows together let pass."""
        calls, tokens = self._totals
        usual = (1.0, tokens / calls if calls > 0 and tokens > 0 else 1.0)
        return min(flow.rate / amount for flow, amount in zip(self.flows, usual, strict=True))

    def wait(self, request: Request, now: float, attempt: int = 0) -> tuple[float, int | None]:
        """Seconds this request has to wait, and for which flow. One that was refused before waits until there
        is allowance to spare: what it leaves is for the calls behind it, so nothing is lost.
        """
        margin = 1 + MARGIN * attempt
        amounts = [margin * amount for amount in self._amounts(request)]
        short = [
            -flow.spare(amount, now) / flow.rate for flow, amount in zip(self.flows, amounts, strict=True)
        ]
        longest = max(short)
        return (longest, short.index(longest)) if longest > 0 else (0.0, None)

    def waited(self, seconds: float, behind: int | None) -> None:
        """Some call stood for so long before a flow; or, as the endpoint told it to wait, before those that
        were refused last.
        """
        self._queued = tuple(
            queued + (seconds if index == behind or (behind is None and index in self._blamed) else 0.0)
            for index, queued in enumerate(self._queued)
        )

    def send(self, request: Request, now: float, behind: int | None = None) -> Sent:
        """The request is sent now, after it had to wait for a flow or not."""
        if self.is_free and now - self._last >= IDLE:
            self._start = self._mark(now)
        self._last = now
        amounts = self._amounts(request)
        spare = tuple(
            flow.spare(amount, now) >= amount for flow, amount in zip(self.flows, amounts, strict=True)
        )
        self._take(amounts)
        self._number += 1
        return Sent(
            at=now,
            number=self._number - 1,
            kind=(request.role, request.stage),
            size=_size(request),
            amounts=amounts,
            had_spare=spare,
            behind=behind,
        )

    def arrived(self, sent: Sent, usage: Usage | None) -> None:
        """The call was answered."""
        self._fruitless = 0
        if usage is not None and usage.total > 0:
            found = usage.total / sent.size
            if sent.kind not in self._density:
                self.flows[1].count_anew(usage.total / sent.amounts[1])
            self._density[sent.kind] = 0.8 * self._density.get(sent.kind, found) + 0.2 * found
            self._correct(sent, (0.0, usage.total - sent.amounts[1]))
        if sent.behind is not None:
            self.flows[sent.behind].passed()

    def refused(self, sent: Sent, said: str, now: float) -> None:
        """The call was refused as one too many. Calls that were sent before the first such refusal was heard
        belong to its burst.
        """
        self._correct(sent, [-amount for amount in sent.amounts])
        if not _ABOUT_PACE.search(said):
            return  # an overloaded server says nothing about how much it takes
        if sent.number >= self._burst.number:
            self._open_burst(said, now)
            self._refused = sent.amounts
            self._fruitless += 1
            for index in self._blamed:
                if sent.had_spare[index] and not math.isinf(self._before[index]):
                    self.flows[index].saves_less()
        start, burst = self._start, self._burst
        seconds = burst.at - start.at if start.is_refusal else max(IDLE, burst.at - start.at)
        calls = burst.totals[0] - start.totals[0]
        sure = start.is_refusal and calls >= FEW
        for index in self._blamed:
            # With half of the refused call, as some of its allowance was there: for a large one it was saved
            # up for long. Whole calls say whether anything was taken at all: sums of tokens leave crumbs.
            taken = (
                (burst.totals[index] - start.totals[index] + self._refused[index] / 2) / seconds
                if calls >= 1
                else 0.0
            )
            queued = burst.queued[index] - start.queued[index] >= QUEUED * seconds
            self.flows[index].learn(taken, self._before[index], queued=queued, sure=sure, now=now)
        if self._fruitless > FRUITLESS:  # whoever asks must find out, and not wait ever longer for a turn
            for flow in self.flows:
                flow.limit = math.inf

    def _open_burst(self, said: str, now: float) -> None:
        if self._burst.number > self._start.number:
            # What was saved up before the first refusal must not count for long; later a measure needs its
            # calls.
            since = self._totals if self._start.is_refusal else self._burst.totals
            until = self._burst.totals if self._start.is_refusal else self._start.totals
            if since[0] - until[0] >= FEW:
                self._start = self._burst
        self._burst = replace(self._mark(now), is_refusal=True)
        self._before = tuple(flow.rate for flow in self.flows)
        self._blamed = self._to_blame(said)

    def _correct(self, sent: Sent, amounts: Sequence[float]) -> None:
        """A call took more or less than was thought: count it where it was sent."""
        self._take(amounts)
        if sent.number < self._burst.number:
            self._burst = replace(self._burst, totals=_plus(self._burst.totals, amounts))
        if sent.number < self._start.number:
            self._start = replace(self._start, totals=_plus(self._start.totals, amounts))

    def _mark(self, now: float) -> Mark:
        return Mark(at=now, number=self._number, totals=self._totals, queued=self._queued)

    def _to_blame(self, said: str) -> tuple[int, ...]:
        """The limit that the refusal names; else the one that was nearest, and before anything
        is known both.
        """
        named = [index for index, pattern in enumerate(_NAMED) if pattern.search(said)]
        if len(named) == 1:
            return tuple(named)
        loads = [
            (end - begin) / rate
            for end, begin, rate in zip(self._burst.totals, self._start.totals, self._before, strict=True)
        ]
        return tuple(index for index, load in enumerate(loads) if load >= max(loads))

    def _amounts(self, request: Request) -> tuple[float, ...]:
        density = self._density.get((request.role, request.stage), 1 / _CHARACTERS)
        return (1.0, density * _size(request))

    def _take(self, amounts: Sequence[float]) -> None:
        self._totals = _plus(self._totals, amounts)
        for flow, amount in zip(self.flows, amounts, strict=True):
            flow.take(amount)


def _plus(one: Iterable[float], other: Iterable[float]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _size(request: Request) -> int:
    return 1 + sum(len(message.content) for message in request.messages)
