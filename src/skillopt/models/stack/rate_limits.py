"""Rate limits as a provider's headers give them: calls and tokens left, and when they refill."""

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
_CHARACTERS_PER_TOKEN = 3.0
"""Before any call was counted."""
_WEIGHT = 0.2
"""Of the last call in the running estimate of tokens per character."""


@dataclass(slots=True, kw_only=True)
class _Bucket:
    limit: float
    level: float
    rate: float
    """Refill per second."""
    at: float

    def missing(self, amount: float, now: float) -> float:
        """Seconds until it holds so much."""
        self.level = min(self.limit, self.level + self.rate * (now - self.at))
        self.at = now
        return (min(amount, self.limit) - self.level) / self.rate


class RateLimits:
    """The buckets of one model: as its provider last reported them, less what was sent since. A provider
    without such headers is never held back here.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_known = False
        """Whether the provider reports any limit."""
        self._buckets: dict[int, _Bucket] = {}
        self._sent = [0.0, 0.0]
        self._tokens_per_character = 1 / _CHARACTERS_PER_TOKEN

    def wait(self, request: Request) -> float:
        """Seconds until the provider has enough for this request."""
        if not self._buckets:
            return 0.0
        now, amounts = self._clock(), self._amounts(request)
        return max(0.0, *(bucket.missing(amounts[unit], now) for unit, bucket in self._buckets.items()))

    def room(self, request: Request) -> float:
        """Seconds for which this request can still be delayed before a full bucket loses refill."""
        amounts = self._amounts(request)
        rooms = [
            min(amounts[unit], bucket.limit - amounts[unit]) / bucket.rate
            for unit, bucket in self._buckets.items()
        ]
        return max(0.0, min(rooms, default=0.0))

    def send(self, request: Request) -> None:
        """Take a request that is sent now out of the buckets."""
        if self._buckets:
            for unit, amount in enumerate(self._amounts(request)):
                self._sent[unit] += amount
                if unit in self._buckets:
                    self._buckets[unit].level -= amount

    def learn(self, request: Request, usage: Usage | None) -> None:
        """Estimate the next calls by what this one took."""
        if usage is not None:
            measured = usage.total / _size(request)
            self._tokens_per_character += _WEIGHT * (measured - self._tokens_per_character)

    def mark(self) -> tuple[float, float, float]:
        """The moment a request leaves: the headers of its answer are about that moment."""
        return self._clock(), self._sent[_REQUESTS], self._sent[_TOKENS]

    def update(self, headers: Mapping[str, str], mark: tuple[float, float, float]) -> None:
        """Read the headers of an answer or a refusal to the request that left at `mark`."""
        for unit, names in _NAMES:
            if names[0] in headers:
                try:
                    limit, left = float(headers[names[0]]), float(headers[names[1]])
                    seconds = _seconds(headers[names[2]])
                except (KeyError, ValueError):
                    continue
                self.is_known = True
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
