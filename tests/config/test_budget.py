"""A budget written as text."""

from __future__ import annotations

import pytest

from skillopt.config.sections import parse_budget
from skillopt.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "usd", "tokens", "calls"),
    [
        ("$2", 2, None, None),
        ("$ 0.50", 0.5, None, None),
        ("2 usd", 2, None, None),
        ("2.5 dollars", 2.5, None, None),
        ("200k tokens", None, 200_000, None),
        ("1.1k tokens", None, 1100, None),
        ("2M tokens", None, 2_000_000, None),
        ("500 calls", None, None, 500),
        ("1 call", None, None, 1),
        ("$2, 200k tokens,500 calls", 2, 200_000, 500),
        ("1,000,000 tokens", None, 1_000_000, None),
        ("$2,500", 2500, None, None),
        ("10 000 tokens, $1", 1, 10_000, None),
        ("1e3 calls", None, None, 1000),
    ],
)
def test_a_budget_reads(text, usd, tokens, calls):
    budget = parse_budget(text)
    assert (budget.usd, budget.tokens, budget.calls) == (usd, tokens, calls)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "two usd",
        "$2 tokens",
        "$2,500 calls",
        "200,00 tokens",
        "1e400 tokens",
        "2 000 00 calls",
        "$-1",
        "$0",
        "1.5 calls",
        "5 cals",
        "$1, $2",
        "5 €",
    ],
)
def test_what_is_no_budget_is_refused_with_the_forms_it_may_have(text):
    with pytest.raises(ConfigError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "minutes"), [("2 hours 30 minutes", 150), ("1h30m", 90), ("2h", 120), ("$1, 2 h 5 min", 125)]
)
def test_hours_and_minutes_are_one_time(text, minutes):
    assert parse_budget(text).minutes == minutes


def test_a_budget_as_text_is_the_whole_budget(run, write):
    write("c.yaml", "budget: {tokens: 5, usd: 1}\n")
    budget = run("c.yaml", flags={"budget": "$3"}).config.budget
    assert (budget.usd, budget.tokens) == (3, None)
    write("d.yaml", "budget: 500 calls\n")
    assert run("d.yaml").config.budget.calls == 500
    assert run("c.yaml", options=["budget.usd=2"]).config.budget.tokens == 5
