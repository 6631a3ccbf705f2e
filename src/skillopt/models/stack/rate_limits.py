"""What a provider's headers say about how much it takes: calls and tokens left, and when they refill."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from skillopt.messages import Request, Usage

# OpenAI, Azure, Groq and most compatible servers write `x-ratelimit-limit-requests`, Anthropic
# `anthropic-ratelimit-requests-limit`. Their limits are buckets that fill steadily; the reset is the time
# until a bucket is full, as a duration (`6m0s`, `20ms`) or as a moment (RFC 3339).
_REQUESTS, _TOKENS = range(2)
_NAMES = tuple(
    (unit, tuple(pattern.format(unit=name, field=field) for field in ("limit", "remaining", "reset")))
    for unit, name in ((_REQUESTS, "requests"), (_TOKENS, "tokens"))
    for pattern in ("x-ratelimit-{field}-{unit}", "anthropic-ratelimit-{unit}-{field}")
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_CHARACTERS = 3.0
"""In a token, before any call was counted."""
_NEW = 0.2
"""The weight of the last call in what calls are expected to take."""


@dataclass(slots=True, kw_only=True)
class _Bucket:
    limit: float
    level: float
    rate: float
    """What is added a second."""
    at: float

    def missing(self, amount: float, now: float) -> float:
        """Seconds until it holds so much."""
        self.level = min(self.limit, self.level + self.rate * (now - self.at))
        self.at = now
        return (min(amount, self.limit) - self.level) / self.rate


class RateLimits:
    """The buckets of one model as its provider last told them, less what was sent since. Without such headers
    nothing is ever held back here.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_told = False
        """Whether the provider says anything."""
        self._buckets: dict[int, _Bucket] = {}
        self._sent = [0.0, 0.0]
        self._tokens_per_character = 1 / _CHARACTERS

    def wait(self, request: Request) -> float:
        """Seconds until the provider has enough for this request."""
        if not self._buckets:
            return 0.0
        now, amounts = self._clock(), self._amounts(request)
        return max(0.0, *(one.missing(amounts[unit], now) for unit, one in self._buckets.items()))

    def room(self, request: Request) -> float:
        """Seconds in which the provider gathers as much as this request takes once more, without any of it
        being lost in a limit that is full.
        """
        amounts = self._amounts(request)
        return max(
            0.0,
            min(
                (
                    min(amounts[unit], one.limit - amounts[unit]) / one.rate
                    for unit, one in self._buckets.items()
                ),
                default=0.0,
            ),
        )

    def send(self, request: Request) -> None:
        """The request is sent now."""
        if self._buckets:
            for unit, amount in enumerate(self._amounts(request)):
                self._sent[unit] += amount
                if unit in self._buckets:
                    self._buckets[unit].level -= amount

    def arrived(self, request: Request, usage: Usage | None) -> None:
        """The request was answered: what calls will take is learned from what they took."""
        if usage is not None:
            found = usage.total / _size(request)
            self._tokens_per_character += _NEW * (found - self._tokens_per_character)

    def mark(self) -> tuple[float, float, float]:
        """The moment a request leaves: its answer tells what was left then, not when it comes."""
        return self._clock(), self._sent[_REQUESTS], self._sent[_TOKENS]

    def told(self, headers: Mapping[str, str], mark: tuple[float, float, float]) -> None:
        """Read the headers of an answer, also of a refusal."""
        for unit, names in _NAMES:
            if names[0] in headers:
                try:
                    limit, left = float(headers[names[0]]), float(headers[names[1]])
                    seconds = _seconds(headers[names[2]])
                except (KeyError, ValueError):
                    continue
                self.is_told = True
                self._buckets.pop(unit, None)
                if left < limit and seconds > 0:  # a full bucket does not say how quickly it fills
                    now, rate = self._clock(), (limit - left) / seconds
                    level = left + rate * (now - mark[0]) - (self._sent[unit] - mark[1 + unit])
                    self._buckets[unit] = _Bucket(limit=limit, level=level, rate=rate, at=now)

    def _amounts(self, request: Request) -> tuple[float, float]:
        return 1.0, self._tokens_per_character * _size(request)


def _seconds(reset: str) -> float:
    """A duration, or the seconds until a moment. Raises `ValueError` for anything else."""
    parts = _DURATION.findall(reset)
    if parts and not _DURATION.sub("", reset):
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "T" in reset:
        return datetime.fromisoformat(reset.replace("Z", "+00:00")).timestamp() - time.time()
    return float(reset)


def _size(request: Request) -> int:
    return 1 + sum(len(message.content) for message in request.messages)
