"""A budget written as text."""

from __future__ import annotations

import pytest

from skillopt.config import parse_budget
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
    ],
)
def test_a_budget_reads(text, usd, tokens, calls):
    budget = parse_budget(text)
    assert (budget.usd, budget.tokens, budget.calls) == (usd, tokens, calls)


@pytest.mark.parametrize(
    "text",
    ["", "2", "two usd", "$2 tokens", "200,000 tokens", "$-1", "$0", "1.5 calls", "5 cals", "$1, $2", "5 €"],
)
def test_what_is_no_budget_is_refused_with_the_forms_it_may_have(text):
    with pytest.raises(ConfigError, match="budget"):
        parse_budget(text)


def test_a_budget_as_text_is_the_whole_budget(run, write):
    write("c.yaml", "budget: {tokens: 5, usd: 1}\n")
    budget = run("c.yaml", flags={"budget": "$3"}).config.budget
    assert (budget.usd, budget.tokens) == (3, None)
    write("d.yaml", "budget: 500 calls\n")
    assert run("d.yaml").config.budget.calls == 500
    assert run("c.yaml", options=["budget.usd=2"]).config.budget.tokens == 5
