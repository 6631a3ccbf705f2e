"""What a role's model costs and what a run may spend, from its configuration."""

from __future__ import annotations

from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

from skillopt.agents import agents
from skillopt.config.roles import RoleSpec
from skillopt.config.schema import Config
from skillopt.config.sections import PriceConfig, RoleName
from skillopt.errors import ConfigError
from skillopt.harnesses import works_alone
from skillopt.models import PROVIDERS, price_of, provider
from skillopt.models.stack.budgeted import LEAST_CAP
from skillopt.money import Budget, Price


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
    if spec.model.provider not in PROVIDERS.names():  # a login that only an agent program can use
        return None
    model = spec.model
    by_key = (one for one in agents() if one.login == model.provider and one.prefers_vendor_key)
    program = next(by_key, None)
    if program is not None and model.api_key and not model.api_key.startswith(program.token_prefix):
        return price_of(program.vendor, model.name, base_url=model.base_url)
    return price_of(model.provider, model.name, base_url=model.base_url)


def least_cap(spec: RoleSpec) -> int:
    """The output that a call of a role sets aside where a budget leaves no more."""
    name = spec.model.provider
    is_fixed = name in PROVIDERS.names() and provider(name).fixes_cap(spec.model)
    return spec.max_tokens if is_fixed else min(spec.max_tokens, LEAST_CAP)


def price_for(config: Config, role: RoleName, spec: RoleSpec) -> Price | None:
    """The price of a role's model; raises `ConfigError` where a budget in dollars needs one not known."""
    price = known_price(spec)
    in_agent = works_alone(spec.harness)
    if (
        price is None
        and config.budget.usd is not None
        and not (in_agent and config.budget.per_rollout.usd is not None)
    ):
        hint = "set budget.per_rollout.usd, " if in_agent else ""
        raise ConfigError(
            f"A budget in dollars needs a price for the {role} {spec.model.name!r}, and none is known."
            f" Declare model.{role}.price (input and output, dollars per million tokens), {hint}or give"
            " the budget in tokens or calls."
        )
    return price


def _declared(price: PriceConfig) -> Price:
    per_token: dict[str, Any] = {
        name: Fraction(str(value)) / 1_000_000
        for name, value in price.model_dump().items()
        if value is not None
    }
    per_token.setdefault("cached", per_token["input"])
    return Price(**per_token, source="configuration", date=datetime.now(timezone.utc).date())
