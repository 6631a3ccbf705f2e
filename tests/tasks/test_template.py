"""Templates: known names are filled, every other brace stays."""

from __future__ import annotations

import pytest

from skillopt.tasks.template import fill, placeholders


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("Q: {question}", "Q: what {is} {question}?"),
        ('Reply as {"answer": "..."} to {question}', 'Reply as {"answer": "..."} to what {is} {question}?'),
        (r"\frac{x}{y} {} { question } {unknown}", r"\frac{x}{y} {} { question } {unknown}"),
        ("{question", "{question"),
        ("{0} {question!r}", "{0} {question!r}"),
    ],
)
def test_only_known_names_are_filled_and_values_are_never_filled_again(template: str, filled: str) -> None:
    assert fill(template, {"question": "what {is} {question}?", "is": "x"}) == filled


def test_the_names_of_a_template_come_in_order_and_once() -> None:
    assert placeholders("{b} {a} {b} {0} {a-1.x}") == ["b", "a", "a-1.x"]
