"""Prices are exact, dated and sourced, and unknown is None."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import date
from fractions import Fraction

import pytest

from skillopt.messages import Usage
from skillopt.models import price_of
from skillopt.money import Price, cost

DAY = date(2026, 11, 1)
DOLLAR = Fraction(1, 1_000_000)
PRICE = Price(input=3 * DOLLAR, output=15 * DOLLAR, cached=DOLLAR * 3 / 10, source="declared", date=DAY)


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-5.4-mini"), ("anthropic", "claude-sonnet-4-6"), ("azure", "gpt-4o")],
)
def test_a_published_model_has_a_positive_price_with_source_and_date(provider: str, model: str) -> None:
    price = price_of(provider, model, on=DAY)
    assert price is not None
    assert 0 < price.cached < price.input < price.output < Fraction(1, 1000)
    assert price.source.startswith("genai-prices ")
    assert price.source.endswith(f"/{model}")
    assert price.date == DAY


def test_a_price_is_for_today_unless_a_day_is_given() -> None:
    price = price_of("openai", "gpt-5.4-mini")
    assert price is not None
    assert price.date > date(2026, 1, 1)


@pytest.mark.parametrize(
    ("provider", "model", "base_url"),
    [
        ("openai", "no-such-model", None),
        ("openai", "gpt-5.4-mini", "http://127.0.0.1:8000/v1"),
        ("openai", "gpt-5.4-mini", "http://localhost:8000/v1"),
        ("openai", "gpt-5.4-mini", "https://gateway.example/v1"),
        ("anthropic", "claude-sonnet-4-6", "http://[::1]:1"),
        ("azure", "gpt-4o", "http://127.0.0.1:1"),
        ("compatible", "gpt-5.4-mini", None),
        ("compatible", "gpt-5.4-mini", "http://10.0.0.1/v1"),
        ("handoff", "anna", None),
        ("claude_cli", "sonnet", None),
    ],
)
def test_what_nobody_bills_by_a_published_price_has_none(
    provider: str, model: str, base_url: str | None
) -> None:
    assert price_of(provider, model, base_url=base_url, on=DAY) is None


def test_a_compatible_endpoint_is_priced_by_its_vendors_address() -> None:
    assert price_of("compatible", "gpt-5.4-mini", base_url="https://api.openai.com/v1", on=DAY) == price_of(
        "openai", "gpt-5.4-mini", on=DAY
    )


def test_cost_is_exact_and_cached_input_is_cheaper() -> None:
    assert cost(Usage(input_tokens=1, output_tokens=0), PRICE) == Fraction(3, 1_000_000)
    usage = Usage(input_tokens=1000, output_tokens=10, cached_tokens=400, reasoning_tokens=9)
    assert cost(usage, PRICE) == 600 * PRICE.input + 400 * PRICE.cached + 10 * PRICE.output
    assert sum(
        (cost(Usage(input_tokens=1, output_tokens=1), PRICE) for _ in range(1000)), Fraction(0)
    ) == Fraction(18, 1000)


def test_input_written_to_the_cache_has_a_price_of_its_own() -> None:
    price = replace(PRICE, cache_write=4 * DOLLAR)
    usage = Usage(input_tokens=1000, output_tokens=0, cached_tokens=400, cache_write_tokens=500)
    assert cost(usage, price) == 100 * PRICE.input + 400 * PRICE.cached + 500 * 4 * DOLLAR
    assert cost(usage, PRICE) == 600 * PRICE.input + 400 * PRICE.cached


def test_published_prices_hold_what_writing_to_the_cache_costs() -> None:
    price = price_of("anthropic", "claude-sonnet-4-6", on=DAY)
    assert price is not None
    assert price.cache_write is not None
    assert price.cached < price.input < price.cache_write


def test_cached_tokens_that_exceed_the_input_never_make_a_call_cheaper_than_its_cached_input() -> None:
    assert cost(Usage(input_tokens=10, output_tokens=0, cached_tokens=99), PRICE) == 10 * PRICE.cached


def test_a_long_input_is_billed_as_a_whole_at_its_tier() -> None:
    tier = replace(PRICE, above=100, input=6 * DOLLAR, output=20 * DOLLAR, cached=DOLLAR)
    price = replace(PRICE, tiers=(tier,))
    assert cost(Usage(input_tokens=100, output_tokens=1), price) == 100 * PRICE.input + PRICE.output
    assert cost(Usage(input_tokens=101, output_tokens=1), price) == 101 * tier.input + tier.output


def test_cost_agrees_with_the_table_it_came_from_below_and_above_a_tier() -> None:
    from genai_prices import Usage as TableUsage
    from genai_prices import calc_price

    price = price_of("openai", "gpt-5.5")
    assert price is not None
    assert price.tiers
    for size in (1, 1000, price.tiers[0].above, price.tiers[0].above + 1, 900_000):
        table = calc_price(
            TableUsage(input_tokens=size, cache_read_tokens=size // 3, output_tokens=77),
            "gpt-5.5",
            provider_id="openai",
        )
        assert cost(Usage(input_tokens=size, output_tokens=77, cached_tokens=size // 3), price) == Fraction(
            table.total_price
        )


@pytest.mark.slow
def test_the_price_table_is_not_imported_until_a_price_is_asked_for() -> None:
    program = (
        "import sys; from skillopt.models import price_of; price_of('world', 'world');"
        " print('genai_prices' in sys.modules)\nprice_of('openai', 'gpt-5.5'); print('genai_prices' in"
        " sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["False", "True"]
