"""Which edits and lines are the same, and which only look so."""

from __future__ import annotations

import pytest

from skillopt.skill.distinct import distinct
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit
from skillopt.train.strategies._lanes import wording


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("- Answer in **metres**.", "* answer in metres", True),
        ("1. Use `JSON`, always!", "use json always", True),
        ("- Example: =SUM(A1:A9)", "- Example: SUM(A1:A9)", False),
        ('- Example: {"a": 1}', "- Example: a 1", False),
        ("- Round up.", "- Round down.", False),
    ],
)
def test_edits_that_differ_in_marks_around_words_say_the_same_and_in_marks_of_an_answer_do_not(
    one: str, other: str, same: bool
) -> None:
    first, second = Edit(op="append", content=one), Edit(op="insert_after", target="x", content=other)
    assert (wording(first) == wording(second)) is same
    kept, repeated = distinct([Edit(op="append", content=other)], Document(f"{one}\n"))
    assert (len(kept), len(repeated)) == ((0, 1) if same else (1, 0))
