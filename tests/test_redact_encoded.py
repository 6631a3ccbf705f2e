"""A loaded credential is taken out however a model writes it, and nothing else is taken for it; variables
that nobody loaded are taken out where they cannot be anything but a secret.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.redact import MARK, Scrubber, secret_variables

KEY = "local-Zq9/7+Xw==kk.4f0a91bb"
WAYS: dict[str, Callable[[str], str]] = {
    "reversed": lambda key: key[::-1],
    "capitals": str.upper,
    "small letters": str.lower,
    "hex": lambda key: key.encode().hex(),
    "hex in capitals": lambda key: key.encode().hex().upper(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 without padding": lambda key: base64.b64encode(key.encode()).decode().rstrip("="),
    "url-safe base64": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "a blank of no width": lambda key: "\u200b".join((key[:5], key[5:9], key[9:])),
    "a spelt blank of no width": lambda key: f"{key[:5]}\\u200b{key[5:]}",
    "marks of direction": lambda key: "\u200e".join(key),
    "hex with a soft hyphen": lambda key: f"{key.encode().hex()[:7]}\u00ad{key.encode().hex()[7:]}",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_loaded_key_is_scrubbed_in_every_writing(way: str) -> None:
    assert Scrubber([KEY]).scrub(f"before {WAYS[way](KEY)} after") == f"before {MARK} after"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@given(before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_base64_hides_a_key_at_no_offset(
    encode: Callable[[bytes], bytes], before: bytes, after: bytes
) -> None:
    """As `user:key` of a Basic login, or a file with the key in it."""
    left = Scrubber([KEY]).scrub(encode(before + KEY.encode() + after).decode())
    assert MARK in left
    assert len(left.replace(MARK, "")) <= 4 * (len(before) + len(after) + 4) / 3 + 4


def test_a_short_or_even_key_is_scrubbed_only_as_it_stands() -> None:
    """Its encodings are so short that an ordinary text may hold them."""
    for key in ("tok-4711", "aaaaaaaaaaaaaaaa", "0101010101010101"):
        scrubber = Scrubber([key])
        assert scrubber.scrub(f"x {key} y") == f"x {MARK} y"
        for way in ("reversed", "capitals", "hex", "base64"):
            if WAYS[way](key) != key:
                assert scrubber.scrub(WAYS[way](key)) == WAYS[way](key)
    words = "staging-server-key"
    assert Scrubber([words]).scrub("STAGING-SERVER-KEY is a name") == "STAGING-SERVER-KEY is a name"


def test_blanks_of_no_width_elsewhere_stay() -> None:
    text = "می\u200cخواهم \u200bfree\u2060 \ufeff soft\u00adhyphen"
    assert Scrubber([KEY]).scrub(text) == text
    assert Scrubber([KEY]).scrub(f"{text}{KEY}{text}") == f"{text}{MARK}{text}"


@pytest.mark.parametrize("unit", ["\u200b", "local-", "\\u200b", "L\u200bOCAL-", "6c6f63616c2d", "bG9jYWwt"])
def test_much_text_of_near_misses_is_scrubbed_in_linear_time(unit: str) -> None:
    scrubber = Scrubber([KEY, KEY[::-1] + "x", "another-Secret-12345"])
    started = time.process_time()
    scrubber.scrub(unit * (1_000_000 // len(unit)))
    assert time.process_time() - started < 20


NOT_LOADED = {
    "UNRELATED_API_KEY": "zx81.Qw7-Er5ty_9Uio3p",
    "STRIPE_SECRET_KEY": "f1e2d3c4b5a697887766",
    "GITHUB_TOKEN": "ghq.0Aa1Bb2Cc3Dd4Ee5Ff",
    "DB_PASSWORD": "c0rrect-H0rse-Batt3ry",
}
ORDINARY = {
    "API_KEY": "short-1",
    "OPENAI_API_KEY": "not needed for a local server, see 12",
    "SECRET": "/run/secrets/database_1",
    "TOKEN": "https://example.org/token/12",
    "AUTH": "enabled-for-everybody",
    "DB_PASSWORD": "1234567890123456789",
    "TOKEN_URL": "zx81.Qw7-Er5ty_9Uio3p",
    "PWD": "/home/ann/project1/12345",
    "MY_TOKEN": "aaaaaaaaaaaaaaaaaaa1",
}


def test_variables_are_secrets_by_name_and_by_a_value_that_is_no_word() -> None:
    assert secret_variables(NOT_LOADED) == list(NOT_LOADED.values())
    assert secret_variables(ORDINARY) == []
