"""What others write, broken in many ways: JSON with wrong parts, text with broken pieces, torn bytes.

Inputs are functions of a `Random`. Hypothesis brings it in `make test`, so that a failing input shrinks; with
`SKILLOPT_TEST_FUZZ=100000` so many plain seeds are tried, which is a hundred times quicker.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SEEDS = int(os.environ.get("SKILLOPT_TEST_FUZZ", "0"))
FIRST = int(os.environ.get("SKILLOPT_TEST_FUZZ_FIRST", "0"))
FRAGMENTS = (
    *("", "\0", "\x1b[2J", "\ud800", "\udcff", "\ufeff", "\u2028", "\r", "\n", "\r\n", "é", "😀", " ", "\t"),
    *(
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        "\\ud800",
        "\\d",
        ":",
        ",",
        "-",
        "---",
        "---\n",
        "```",
        "```json\n",
        "'",
    ),
    *(
        "NaN",
        "-Infinity",
        "1e999",
        "9" * 400,
        "null",
        "true",
        "[" * 400,
        "[" * 1500,
        '{"a":' * 400,
        "&a [*a, *a]",
        "!!x y",
    ),
    *("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->", "SKILL.md", "../../etc/passwd", "{skill}"),
)
"""Pieces that have broken parsers before."""
_PLAIN = (None, True, False, 0, -1, 2**63, 1.5, -1e308, [], {}, [[]], [{}], {"": None}, "1", "x" * 3000)


def tried(work: Callable[[Random], None], examples: int = 30) -> None:
    """Do the work with many sources of chance; one that fails is named by its seed."""
    if not SEEDS:
        quick = settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        quick(given(st.randoms(use_true_random=False))(lambda dice: work(dice)))()
    for seed in range(FIRST, FIRST + SEEDS):
        try:
            work(Random(seed))
        except Exception as error:
            error.add_note(f"seed {seed}") if hasattr(error, "add_note") else print(f"seed {seed}")
            raise


def some_json(dice: Random, depth: int = 2) -> Any:
    """Any JSON value."""
    kind = dice.randrange(6 if depth else 3)
    if kind == 0:
        return copy.deepcopy(dice.choice(_PLAIN))
    if kind in (1, 2):
        return dice.choice(FRAGMENTS) if kind == 1 else dice.randrange(-10, 10)
    if kind == 3:
        return {dice.choice(FRAGMENTS): some_json(dice, depth - 1) for _ in range(dice.randrange(4))}
    return [some_json(dice, depth - 1) for _ in range(dice.randrange(4))]


def spoilt(dice: Random, sample: Any) -> Any:
    """A JSON value like the sample, with some of its parts taken out, doubled, or of another kind."""
    value = json.loads(json.dumps(sample))
    for _ in range(dice.randrange(4)):
        value = _changed(dice, value)
    return value


def broken(dice: Random, text: str) -> str:
    """The text with pieces cut out, put in or doubled; at times it ends in the middle."""
    for _ in range(dice.randrange(4)):
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.choice((0, 1, 5, 60)))
        piece = dice.choice((dice.choice(FRAGMENTS), dice.choice(FRAGMENTS), text[start:end] * 2, ""))
        text = text[:start] + piece + text[end:]
    return text[: dice.randint(0, len(text))] if dice.randrange(6) == 0 else text


def written(dice: Random, sample: Any) -> str:
    """The sample as JSON text, spoilt as a value, as a text, or both."""
    value = spoilt(dice, sample) if dice.randrange(3) else sample
    text = json.dumps(value, ensure_ascii=dice.randrange(2) == 0, indent=dice.choice((None, 1)))
    return broken(dice, text) if dice.randrange(2) else text


def torn(dice: Random, data: bytes) -> bytes:
    """Bytes with some of them changed, cut out or put in, or a text broken as `broken` does."""
    if dice.randrange(2) and not data.startswith(b"SQLite"):
        return as_bytes(broken(dice, data.decode()))
    made = bytearray(data)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randint(0, len(made))
        piece = as_bytes(dice.choice(FRAGMENTS)) if dice.randrange(2) else bytes([dice.randrange(256)])
        made[at : at + dice.choice((0, 1, len(piece), 40))] = piece
    return bytes(made)


def as_bytes(text: str) -> bytes:
    """Text as bytes, halves of surrogate pairs as well."""
    return text.encode("utf-8", "surrogatepass")


def _changed(dice: Random, value: Any) -> Any:
    places = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    how = dice.randrange(8)
    if not places or how == 0:
        return some_json(dice)
    place = dice.choice(places)
    if how == 1:
        del value[place]
    elif how == 2 and isinstance(value, list):
        value.append(copy.deepcopy(value[place]))
    elif how == 2:
        value[dice.choice(FRAGMENTS)] = some_json(dice)
    else:
        value[place] = _changed(dice, value[place])
    return value
