"""What a token costs: the price of a model from the offline table, or None where nobody published one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date as Date  # noqa: N812 - the field is named date
from datetime import datetime, time, timezone
from fractions import Fraction
from functools import cache
from typing import Any

from skillopt.messages import Usage
from skillopt.models.wires.http import is_loopback

_OWN_HOST = {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The prices of a whole call whose input has more than `above` tokens."""

    above: int
    input: Fraction
    output: Fraction
    cached: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per token, exactly. `cached` is what a token read from the provider's prompt cache costs."""

    input: Fraction
    output: Fraction
    cached: Fraction
    source: str
    date: Date
    """The day for which the price was looked up."""
    tiers: tuple[Tier, ...] = ()
    """Dearer prices for long inputs, ascending."""


def price_of(
    provider: str, model: str, *, base_url: str | None = None, on: Date | None = None
) -> Price | None:
    """The published price of a model, today or on a day; None is unknown, and is not zero.

    Simulated models, servers on this machine and endpoints whose vendor is not known by its address have
    none: config may declare one. A model that runs inside this process costs nothing, and that is known.
    """
    return _look_up(provider, model, base_url, on or datetime.now(timezone.utc).date())


def cost(usage: Usage, price: Price) -> Fraction:
    """What a call with this usage costs, in US dollars. Unknown cached tokens count as not cached."""
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    rates: Price | Tier = price
    for tier in price.tiers:
        if usage.input_tokens > tier.above:
            rates = tier
    return (
        (usage.input_tokens - cached) * rates.input
        + cached * rates.cached
        + usage.output_tokens * rates.output
    )


@cache
def _look_up(provider: str, model: str, base_url: str | None, on: Date) -> Price | None:
    if provider == "local":
        return Price(
            input=Fraction(0), output=Fraction(0), cached=Fraction(0), source="runs in this process", date=on
        )
    if base_url is not None and is_loopback(base_url):
        return None
    if provider == "azure":
        where = {"provider_id": "azure"}  # its host names are the customer's
    elif provider == "compatible" or provider in _OWN_HOST:
        # By the address: an OpenAI-style endpoint of another vendor is not billed by OpenAI.
        address = base_url or _OWN_HOST.get(provider)
        if address is None:
            return None
        where = {"provider_api_url": address}
    else:
        return None
    import genai_prices  # a third of a second; only runs with a priced model pay it

    calc_price: Any = (
        genai_prices.calc_price
    )  # its overloads take either way to name a vendor, but not a choice of the two
    noon = datetime.combine(on, time(12), timezone.utc)
    try:
        found = calc_price(
            genai_prices.Usage(input_tokens=1, output_tokens=1), model, genai_request_timestamp=noon, **where
        )
    except LookupError:
        return None
    rates = {
        name: getattr(found.model_price, f"{name}_mtok", None) for name in ("input", "output", "cache_read")
    }
    if rates["input"] is None or rates["output"] is None:
        return None
    if rates["cache_read"] is None:
        rates["cache_read"] = rates["input"]
    base, *tiers = (
        {
            "input": _rate(rates["input"], above),
            "output": _rate(rates["output"], above),
            "cached": _rate(rates["cache_read"], above),
        }
        for above in _steps(rates)
    )
    return Price(
        **base,
        tiers=tuple(
            Tier(above=above, **prices) for above, prices in zip(_steps(rates)[1:], tiers, strict=True)
        ),
        source=f"genai-prices {genai_prices.__version__}: {found.provider.id}/{found.model.id}",
        date=on,
    )


def _steps(rates: dict[str, Any]) -> list[int]:
    """The input sizes at which some price changes, from 0."""
    return sorted({0} | {tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})


def _rate(rate: Any, above: int) -> Fraction:
    per_million = getattr(rate, "base", rate)
    for tier in getattr(rate, "tiers", ()):
        if tier.start <= above:
            per_million = tier.price
    return Fraction(per_million) / 1_000_000
