"""What a token costs: declared by a provider, or from the offline table of published prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date as Date  # noqa: N812 - the field is named date
from datetime import datetime, time, timezone
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

from skillopt.config.service import is_loopback
from skillopt.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per token, exactly. `cached` is what a token read from the provider's prompt cache costs."""

    input: Fraction
    output: Fraction
    cached: Fraction
    cache_write: Fraction | None = None
    """What a token written to the cache costs; unset means the input price."""
    source: str
    date: Date
    """The day for which the price was looked up."""
    above: int = 0
    """It holds for whole calls whose input has more tokens than this."""
    tiers: tuple[Price, ...] = ()
    """Dearer prices for longer inputs, ascending."""


PriceOf: TypeAlias = Callable[[str, str | None, Date], Price | None]
"""The price of a model by its name and base URL on a day; None is unknown, and is not zero."""


def per_million(
    *, input: float, output: float, cached: float | None = None, source: str = "its provider"
) -> PriceOf:
    """One price for every model of a provider, in US dollars per million tokens."""
    rates = (input, output, input if cached is None else cached)
    paid, said, kept = (Fraction(str(rate)) / 1_000_000 for rate in rates)

    def price(model: str, base_url: str | None, on: Date) -> Price | None:
        return Price(input=paid, output=said, cached=kept, source=source, date=on)

    return price


def by_address(own: str | None) -> PriceOf:
    """Published prices, by the address that is called: an endpoint of the same kind elsewhere is billed by
    somebody else. `own` is the address where none is given.
    """

    def price(model: str, base_url: str | None, on: Date) -> Price | None:
        address = base_url or own
        if address is None or is_loopback(address):
            return None
        return _published(model, on, provider_api_url=address)

    return price


def by_vendor(vendor: str) -> PriceOf:
    """Published prices of a vendor whose host names are the customers'."""

    def price(model: str, base_url: str | None, on: Date) -> Price | None:
        if base_url is not None and is_loopback(base_url):
            return None
        return _published(model, on, provider_id=vendor)

    return price


def cost(usage: Usage, price: Price) -> Fraction:
    """What a call with this usage costs, in US dollars. Unknown cached tokens count as not cached."""
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    written = min(usage.cache_write_tokens or 0, usage.input_tokens - cached)
    rates = [price, *(tier for tier in price.tiers if usage.input_tokens > tier.above)][-1]
    return (
        (usage.input_tokens - cached - written) * rates.input
        + cached * rates.cached
        + written * (rates.input if rates.cache_write is None else rates.cache_write)
        + usage.output_tokens * rates.output
    )


@cache
def _published(model: str, on: Date, **where: str) -> Price | None:
    import genai_prices  # a third of a second; only runs with a priced model pay it

    # its overloads take either way to name a vendor, but not a choice of the two
    calc_price: Any = genai_prices.calc_price
    noon = datetime.combine(on, time(12), timezone.utc)
    try:
        found = calc_price(
            genai_prices.Usage(input_tokens=1, output_tokens=1), model, genai_request_timestamp=noon, **where
        )
    except LookupError:
        return None
    rates = {
        name: getattr(found.model_price, f"{name}_mtok", None)
        for name in ("input", "output", "cache_read", "cache_write")
    }
    if rates["input"] is None or rates["output"] is None:
        return None
    rates = {name: rates["input"] if rate is None else rate for name, rate in rates.items()}

    source = f"genai-prices {genai_prices.__version__}: {found.provider.id}/{found.model.id}"

    def at(above: int) -> Price:
        per_token: dict[str, Any] = {
            name.replace("cache_read", "cached"): _rate(rate, above) for name, rate in rates.items()
        }
        return Price(**per_token, source=source, date=on, above=above)

    return replace(at(0), tiers=tuple(map(at, _steps(rates)[1:])))


def _steps(rates: dict[str, Any]) -> list[int]:
    """The input sizes at which some price changes, from 0."""
    return sorted({0} | {tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})


def _rate(rate: Any, above: int) -> Fraction:
    per_million = getattr(rate, "base", rate)
    for tier in getattr(rate, "tiers", ()):
        if tier.start <= above:
            per_million = tier.price
    return Fraction(per_million) / 1_000_000
