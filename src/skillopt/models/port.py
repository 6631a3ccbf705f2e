"""The port every provider implements, and what one is built from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from skillopt.config.sections import PriceConfig
from skillopt.config.service import EXPECTED, Service
from skillopt.errors import ConfigError, suggest
from skillopt.messages import Reply, Request
from skillopt.money import PriceOf

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
    its provider says. One with limits and without a number of its own is asked once more where it is slow.
    """

    endpoint: str
    """Models with the same endpoint share one limiter."""
    fingerprint: Mapping[str, Any]
    """Provider, model, address (`ModelSpec.address`) and every sampling parameter that is set: what could
    change an answer. JSON values only, no secrets.
    """

    async def complete(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


# Families of models that think before they answer, by the names their vendors give them.
_REASONS = re.compile(
    r"^o\d|^gpt-(?:[5-9]|\d\d|oss)|think|reason|\br1\b|^qwq|^qwen-?3|magistral|minimax|^grok-(?:3-mini|[4-9])"
    r"|^glm-(?:4\.[5-9]|[5-9]|z)|^kimi-k[2-9]|^deepseek-(?:v3\.[1-9]|v[4-9])|^gemini-(?:2\.5|[3-9])"
    r"|^claude-(?:opus|sonnet|haiku|3-7)|nemotron|seed-|hunyuan|^mimo",
    re.IGNORECASE,
)


def _unheard(text: str) -> None:
    """Nobody listens to remarks. No lambda: a spec is sent to other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What the model of a role is built from, and the harness it works in. Config fills it from a
    `RoleConfig`; no provider reads the environment. Unset (`None`) knobs are not sent.
    """

    provider: str
    name: str
    base_url: str | None = None
    address: str | None = None
    """What the address counts as in a measurement, part of the fingerprint; empty for the provider's own, and
    unset it follows from `base_url` (`Service.address`).
    """
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    timeout: float = 120.0
    cap: int | None = None
    """The output cap that somebody asked for; without it `Request.max_tokens` is only our own bound."""
    connections: int = 64
    """How many calls may be open at once; sizes the connection pool."""
    structured_output: str = "auto"
    """How a schema is asked for: `schema` (the provider's JSON-schema mode), `json` (its JSON mode), `off`
    (by the prompt alone), or `auto` (schema, falling back once on a refusal and remembering it).
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Provider-specific settings, by name."""
    harness: str = "chat"
    """How a target works on tasks."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the agent program that the harness drives: path, profile, sandbox ..."""
    price: PriceConfig | None = None
    """Price in the configuration, where one is."""
    hedges: bool = True
    """True where a call that takes far longer than usual is asked once more."""
    remark: Callable[[str], None] = field(default=_unheard, repr=False, compare=False)
    """Hears what a person should know of how the provider asks; a run makes a notice of it."""

    def at(self, address: str) -> ModelSpec:
        """The same, measured as the model of that address."""
        return replace(self, address=address)

    @property
    def max_tokens(self) -> int:
        """The output cap of its calls."""
        return self.cap or DEFAULT_MAX_TOKENS

    @property
    def may_reason(self) -> bool:
        """Whether its answers may have cost tokens that nobody sees: by its name, or as it was asked to."""
        if self.reasoning_effort is not None:
            return self.reasoning_effort != "none"
        return _REASONS.search(self.name.rpartition("/")[2]) is not None

    def sampling(self, *names: str) -> dict[str, Any]:
        """The sampling parameters that are set, of these or of all, as fingerprint and wire name them."""
        wanted = names or ("temperature", "top_p", "seed", "reasoning_effort")
        return {name: value for name in wanted if (value := getattr(self, name)) is not None}

    def fingerprint(self, options: Iterable[str] = ()) -> dict[str, Any]:
        """Provider, model, an address that is not the provider's own, the sampling parameters and named
        options that are set; no key.

        How structured output is asked for is in it where the user chose a way, and never what `auto` came to.
        """
        chosen = {name: self.options[name] for name in options if self.options.get(name) is not None}
        if self.structured_output != "auto":
            chosen["structured_output"] = self.structured_output
        where = {"address": self.address} if self.address else {}
        return {"provider": self.provider, "model": self.name, **where, **self.sampling(), **chosen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider(Service):
    """`PLUGIN` of every file in `providers/`: how a model is built, what it costs, and what configuration
    has to know of it. A declaration is light: an SDK is imported by the first call, not by the file.
    """

    open: Callable[[ModelSpec], Model]
    """Builds a model; raises `ConfigError` for settings that cannot work. Key and options were checked."""
    fixes_cap: Callable[[ModelSpec], bool] = lambda spec: False
    """Whether another output cap would make another question of it: then no cap is cut to fit a budget."""
    cap_is_own_limit: bool = False
    """Whether a target's answer that the output cap ends counts as one that the model's own limit ends: where
    the model runs with that cap, greedy, it would run on each time it is asked again.
    """
    on_this_machine: bool = False
    """Whether its calls are worked on by this machine's processor: they take its time, and no money."""
    price: PriceOf = lambda model, base_url, on: None
    """What a model costs: from its name, its base URL (None is the provider's own) and a day. Where nobody
    published a price the configuration may declare one.
    """

    def __call__(self, spec: ModelSpec) -> Model:
        """The model of a spec, after what the declaration says of keys and options is checked."""
        shown = f"{spec.provider}:{spec.name}"
        given = {name: value for name, value in spec.options.items() if value is not None}
        try:
            self.Options.model_validate(given)
        except ValidationError as error:
            raise ConfigError(f"{shown}: {_wrong_option(self.Options, error)}") from None
        if spec.api_key is None and self.wants_key(given) and not self.may_lack_key:
            raise ConfigError(f"{shown} needs an API key. Set {self.variable(spec.provider, 'api_key')}.")
        address = self.address(spec.base_url) if spec.address is None else spec.address
        return self.open(replace(spec, address=address))


def _wrong_option(options: type[BaseModel], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name, value = ".".join(map(str, first["loc"])), first["input"]
    if first["type"] == "extra_forbidden":
        return f"there is no option {name!r}. {suggest(name, options.model_fields)}"
    choices = re.findall(r"'([^']+)'", str(first.get("ctx", {}).get("expected", "")))
    if choices:
        return f"the option {name} has no value {value!r}. {suggest(str(value), choices)}"
    expected = EXPECTED.get(first["type"])
    return f"the option {name} is {value!r}: " + (f"expected {expected}" if expected else first["msg"])
