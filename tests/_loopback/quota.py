"""What a simulated provider allows: requests a second and tokens a minute, refused as by a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Two buckets that fill steadily, as large providers have them: a second of requests, a minute of tokens.

    A call takes its input and output tokens when it is admitted; a refused one takes nothing.
    """

    requests_per_second: float | None = None
    tokens_per_minute: float | None = None
    says_what_is_left: bool = True
    """In headers of every answer, as OpenAI does; else only `Retry-After` says something."""

    def least_seconds(self, calls: int, tokens: int) -> float:
        """No client can have this much admitted in less time."""
        return max(
            bucket.seconds(amount) for bucket, amount in zip(self.buckets(), (calls, tokens), strict=True)
        )

    def buckets(self) -> tuple[Bucket, Bucket]:
        """Both, full: requests and tokens."""
        requests, tokens = self.requests_per_second, self.tokens_per_minute
        return (
            Bucket(what=f"requests per second (RPS): Limit {requests}", rate=requests, size=requests),
            Bucket(
                what=f"tokens per min (TPM): Limit {tokens}",
                rate=None if tokens is None else tokens / 60,
                size=tokens,
            ),
        )


@dataclass(slots=True, kw_only=True)
class Bucket:
    """One allowance; without rate it has no end."""

    what: str
    rate: float | None
    size: float | None

    def seconds(self, amount: float) -> float:
        """The time in which a full bucket gives so much."""
        return 0.0 if self.rate is None or self.size is None else max(0.0, (amount - self.size) / self.rate)


class Meter:
    """Holds a provider to its quota."""

    def __init__(self, quota: Quota, clock: Callable[[], float] = time.monotonic) -> None:
        self._says_what_is_left = quota.says_what_is_left
        self._buckets = quota.buckets()
        self._levels = [bucket.size or 0.0 for bucket in self._buckets]
        self._clock = clock
        self._at = clock()
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """What is left, as OpenAI says it: limit, remaining, and the time until it is full again."""
        with self._lock:
            told: dict[str, str] = {}
            if not self._says_what_is_left:
                return told
            for unit, bucket, level in zip(("requests", "tokens"), self._buckets, self._levels, strict=True):
                if bucket.rate is not None and bucket.size is not None:
                    told[f"x-ratelimit-limit-{unit}"] = f"{bucket.size:g}"
                    told[f"x-ratelimit-remaining-{unit}"] = str(int(level))
                    told[f"x-ratelimit-reset-{unit}"] = f"{1000 * (bucket.size - level) / bucket.rate:.0f}ms"
            return told

    def admit(self, tokens: int) -> tuple[str, float] | None:
        """Take a call with so many tokens, or say which limit refuses it and for how many seconds."""
        with self._lock:
            now = self._clock()
            passed, self._at = now - self._at, now
            amounts = (1.0, float(tokens))
            short: list[tuple[float, str]] = []
            for index, (bucket, amount) in enumerate(zip(self._buckets, amounts, strict=True)):
                if bucket.rate is None or bucket.size is None:
                    continue
                self._levels[index] = min(bucket.size, self._levels[index] + bucket.rate * passed)
                missing = min(amount, bucket.size) - self._levels[index]
                if missing > 1e-9:
                    short.append((missing / bucket.rate, bucket.what))
            if short:
                seconds, what = max(short)
                return f"Rate limit reached on {what}. Please try again in {seconds:.3f}s.", seconds
            self._levels = [level - amount for level, amount in zip(self._levels, amounts, strict=True)]
            return None
