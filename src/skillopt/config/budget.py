"""What a run may spend: the keys of the section `budget`, and a budget written as text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pydantic import Field

from skillopt.config.role_schema import Section
from skillopt.errors import ConfigError, suggest

_UNITS = {
    **dict.fromkeys(("usd", "dollar", "dollars"), "usd"),
    **dict.fromkeys(("token", "tokens"), "tokens"),
    **dict.fromkeys(("call", "calls"), "calls"),
    **dict.fromkeys(("min", "minute", "minutes"), "minutes"),
    **dict.fromkeys(("h", "hour", "hours"), "hours"),
}
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_PART = re.compile(
    r"^(?P<dollar>\$)?\s*(?P<number>(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?(?:[eE]\d{1,2})?|\.\d+)"
    r"(?P<scale>[kKmM]?)\s*(?P<unit>[A-Za-z]*)$"
)
_BETWEEN = re.compile(r"(?<!\d),|,(?!\d{3}(?!\d))")  # not the comma of 1,000,000
_HOURS = re.compile(r"(\d+)\s*(?:h|hours?)\s*(?:and\s*)?(\d+)\s*(?:m|min|minutes?)\b", re.IGNORECASE)
_HELP = "Write '$2', '200k tokens', '500 calls', '30 minutes', or several with commas"


class AllowanceConfig(Section):
    """What one rollout inside an agent program may use, set aside before it starts: its calls are its own."""

    usd: float | None = Field(default=None, gt=0)
    """US dollars set aside for a rollout inside an agent program."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens set aside for a rollout inside an agent program."""


class BudgetConfig(Section):
    """What a run may spend; unset is unlimited. Also as text: '$2', '200k tokens', or several with commas."""

    usd: float | None = Field(default=None, gt=0)
    """US dollars."""
    tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(default=None, gt=0)
    """Model calls."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall time over all sessions; calls under way at its end are waited for."""
    per_rollout: AllowanceConfig = AllowanceConfig()
    """Set aside for one rollout inside an agent program; unset learns from those seen."""


def parse_budget(text: str) -> BudgetConfig:
    """Read '$2', '200k tokens', '500 calls', '2 hours', or several with commas; all else is unlimited."""
    found: dict[str, Decimal] = {}
    plain = _HOURS.sub(lambda found: f"{int(found[1]) * 60 + int(found[2])} minutes", text)
    for part in _BETWEEN.split(plain):
        unit, amount = _part(part.strip())
        if unit in found:
            raise ConfigError(f"budget {text!r} names {unit} twice. {_HELP}.")
        found[unit] = amount
    limits: dict[str, Any] = {
        unit: int(amount) if unit in ("tokens", "calls") else float(amount) for unit, amount in found.items()
    }
    return BudgetConfig(**limits)


def _part(part: str) -> tuple[str, Decimal]:
    match = _PART.match(part)
    if match is None:
        raise ConfigError(f"budget: cannot read {part!r}. {_HELP}.")
    word = match["unit"].lower()
    if match["dollar"]:
        if word not in ("", "usd", "dollar", "dollars"):
            raise ConfigError(f"budget: {part!r} names two units. {_HELP}.")
        unit = "usd"
    elif not word:
        raise ConfigError(f"budget: {part!r} has no unit. {_HELP}.")
    elif word not in _UNITS:
        raise ConfigError(
            f"budget: {part!r} has an unknown unit. {suggest(word, ('usd', 'tokens', 'calls', 'minutes'))}"
            f" {_HELP}."
        )
    else:
        unit = _UNITS[word]
    amount = Decimal(re.sub("[, ]", "", match["number"])) * _SCALES[match["scale"].lower()]
    if amount <= 0:
        raise ConfigError(f"budget: {part!r} allows nothing; leave it out for no limit.")
    if unit == "hours":
        unit, amount = "minutes", amount * 60
    if unit in ("tokens", "calls") and amount != amount.to_integral_value():
        raise ConfigError(f"budget: {part!r} is not a whole number of {unit}.")
    return unit, amount
