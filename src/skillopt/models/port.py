"""The port every provider implements, and what one is built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from skillopt.messages import Reply, Request

DEFAULT_MAX_TOKENS = 16384
UNBOUNDED = 1_000_000
"""As many calls at once as there are."""


class Model(Protocol):
    """Anything that answers a request.

    `complete` sends exactly one attempt: no retries, no caching. It raises `ModelError` with the right kind
    for every failure of the measurement, and returns a `Reply` for whatever the model itself said, also a
    refusal or a reply cut at the cap. An error with `again` is asked once more at once.

    A model may also have `open()`, which loads what the first call needs, `concurrency`, the number of calls
    it takes at once whatever number of workers is configured, and `limits`, a `RateLimits` that it tells what
    its provider says.
    """

    endpoint: str
    """Models with the same endpoint share one limiter."""
    fingerprint: Mapping[str, Any]
    """Provider, model and every sampling parameter that is set: what could change an answer. JSON values
    only, no secrets.
    """

    async def complete(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What a provider is built from; config fills it, no provider reads the environment. Unset (`None`) knobs
    are not sent.
    """

    provider: str
    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    timeout: float = 120.0
    connections: int = 64
    """How many calls may be open at once; sizes the connection pool."""
    structured_output: str = "auto"
    """How a schema is asked for: `schema` (the provider's JSON-schema mode), `json` (its JSON mode), `off`
    (by the prompt alone), or `auto` (schema, falling back once on a refusal and remembering it).
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Provider-specific settings, by name."""

    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that are set, as the fingerprint and the wire name them."""
        knobs = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "reasoning_effort": self.reasoning_effort,
        }
        return {name: value for name, value in knobs.items() if value is not None}


Provider: TypeAlias = Callable[[ModelSpec], Model]
"""`PLUGIN` of every file in this folder."""
