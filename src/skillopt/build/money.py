"""Decides what a role's model costs and what a run may spend, from its configuration."""

from __future__ import annotations

from datetime import datetime, timezone
from fractions import Fraction

from skillopt.config import Config, PriceConfig, RoleSpec
from skillopt.ledger import Budget
from skillopt.models import price_of
from skillopt.models.prices import Price


def budget_of(config: Config) -> Budget:
    """The limits of a run."""
    limits = config.budget
    return Budget(
        calls=limits.calls,
        tokens=limits.tokens,
        usd=None if limits.usd is None else Fraction(str(limits.usd)),
        seconds=None if limits.minutes is None else limits.minutes * 60,
    )


def known_price(spec: RoleSpec) -> Price | None:
    """The price of a role's model: as declared, else as published; None is unknown, and is not zero."""
    if spec.price is not None:
        return _declared(spec.price)
    return price_of(spec.model.provider, spec.model.name, base_url=spec.model.base_url)


def _declared(price: PriceConfig) -> Price:
    per_token = {
        name: Fraction(str(value)) / 1_000_000
        for name, value in price.model_dump().items()
        if value is not None
    }
    today = datetime.now(timezone.utc).date()
    cached = per_token.get("cached", per_token["input"])
    return Price(
        input=per_token["input"],
        output=per_token["output"],
        cached=cached,
        source="configuration",
        date=today,
    )
