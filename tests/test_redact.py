"""Secrets stay home: loaded credentials exactly, other people's by shape, and ordinary text untouched."""

from __future__ import annotations

import json
import re
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt.redact import MARK, Scrubber, redact_patterns

AWKWARD = 'p"w\\d/ä €+%&x'
B64 = "QmFzZTY0/Q+9Zz0123456789abcdEFGH" * 4
PEM = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{B64}\n{B64}\n-----END RSA PRIVATE KEY-----"
)

KEYS = {
    "openai": "sk-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefABCDEF",
    "openai project": "sk-proj-Ab_Cd-EfGhIjKlMnOp0123456789",
    "anthropic": "sk-ant-api03-AbC_dEf-0123456789-xyzXYZ_AA",
    "openrouter": "sk-or-v1-0123456789abcdef0123456789abcdef",
    "named": "sk-local-0123456789abcdefABCDEF",
    "stripe": "sk_live_0123456789abcdefABCD",
    "github": "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github app": "ghs_0123456789abcdefABCDEF0123456789abcd",
    "github fine": "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
    "gitlab": "glpat-0123456789abcdefABCD",
    "hugging face": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "slack": "xoxb-123456789012-abcdefABCDEF",
    "google": "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "pem": PEM,
    "pem in json": json.dumps(PEM)[1:-1],
}

PLAIN = [
    (
        "The bearer of good news: a bearer token is sent in a header, and the bearer"
        " acknowledgements-of-receipt was signed."
    ),
    (
        "Ask the sk-learn pipeline, then read skeleton-keys-and-other-stories, task-1 and"
        " risk-management-of-the-project."
    ),
    "sk-learn-pipeline-with-many-words-in-it",
    "task-da39a3ee5e6b4b0d3255bfef95601890afd80709 and disk-0123456789abcdef0123456789",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "123e4567-e89b-12d3-a456-426614174000",
    (
        "See http://localhost:8000/v1 and https://example.org:443/a?page=2&order=asc#top, or write to"
        " ann@example.org at 10:30."
    ),
    "git@github.com:skill/opt.git and ssh://git@github.com/skill/opt.git",
    "ASIAN markets; AKIAS is not a key; XOXO, love; xox-",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "Basic understanding of authorization: basic principles apply to every token=short.",
    '`{"eyJ": 1}` eyJust.kidding.here',
    "Überraschung: naïve café — “quotes” … 中文 テスト",
]


@pytest.mark.parametrize("name", KEYS)
def test_a_well_known_key_is_redacted_wherever_it_stands(name: str) -> None:
    key = KEYS[name]
    for text in (key, f"key={key} and more", f'{{"key": "{key}"}}', f"({key})", f"\n{key}\n"):
        redacted = redact_patterns(text)
        assert redacted == text.replace(key, MARK)


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_hashes_and_uuids_are_left_alone(text: str) -> None:
    assert redact_patterns(text) == text


def test_a_bearer_header_keeps_its_name_and_loses_its_token() -> None:
    assert redact_patterns("Authorization: Bearer abc123def456ghi789") == f"Authorization: Bearer {MARK}"
    assert redact_patterns("authorization: basic dXNlcjpwYXNzd29yZA==") == f"authorization: basic {MARK}"


def test_a_password_in_a_url_is_redacted_and_the_url_stays_readable() -> None:
    assert redact_patterns("postgres://ann:s3cret@db:5432/x") == f"postgres://ann:{MARK}@db:5432/x"
    assert (
        redact_patterns("GET https://h/x?a=1&api_key=abcdef123&b=2")
        == f"GET https://h/x?a=1&api_key={MARK}&b=2"
    )


def test_a_cut_private_key_takes_only_its_own_lines_with_it() -> None:
    cut = f"-----BEGIN PRIVATE KEY-----\n{B64}"
    assert redact_patterns(cut) == MARK
    assert (
        redact_patterns("a line -----BEGIN PRIVATE KEY----- and prose after it")
        == f"a line {MARK} and prose after it"
    )


ADVERSARIAL = [
    *(
        "sk-",
        "sk-a-",
        "sk_live_",
        "ghp_",
        "github_pat_",
        "AKIA",
        "xoxb-",
        "AIza",
        "eyJ",
        "eyJaaaaaaaa.",
        "hf_",
        "glpat-",
        "ya29.",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n--",
        "-----BEGIN ",
        "-",
        "://",
        "://a:",
        "a:",
        "?key=",
        "&token=abc",
    ),
    *("Bearer ", "bearer\t\t\t\t", "authorization: basic ", "a", "A1", " ", "é"),
]


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_much_text_of_near_misses_is_read_in_linear_time(unit: str) -> None:
    end = " PRIVATE KEY eyJ AKIA sig= earer asic ya29. xai-"
    redact_patterns(unit + end)  # patterns are compiled when they are first needed
    started = time.process_time()
    redact_patterns(unit * (300_000 // len(unit)) + end)
    assert time.process_time() - started < 10


def test_a_loaded_secret_is_scrubbed_plain_json_escaped_and_url_quoted() -> None:
    scrubber = Scrubber([AWKWARD])
    for form in (
        AWKWARD,
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        json.dumps(AWKWARD).replace("/", "\\/"),
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote(AWKWARD, safe="").lower(),
        quote_plus(AWKWARD),
    ):
        scrubbed = scrubber.scrub(f"before {form} after")
        assert scrubbed.replace('"', "") == f"before {MARK} after"


def test_secrets_that_overlap_leave_no_tail_of_each_other() -> None:
    assert Scrubber(["abc-ef", "c-efghijkl"]).scrub("x abc-efghijkl y") == f"x {MARK} y"
    assert Scrubber(["abc-ef", "abc-efgh"]).scrub("abc-efgh abc-ef") == f"{MARK} {MARK}"


def test_placeholders_are_not_secrets() -> None:
    assert Scrubber(["", "none", "EMPTY"]).scrub("none is EMPTY") == "none is EMPTY"


def test_a_plain_word_given_as_a_key_is_left_in_the_text_where_taking_it_out_would_change_scores() -> None:
    assert (
        Scrubber(["answer", "ollama", "checkpoint"]).scrub("<answer>ollama</answer> checkpoint")
        == "<answer>ollama</answer> checkpoint"
    )
    assert Scrubber(["Answer4242"]).scrub("an Answer4242 here") == f"an {MARK} here"


def test_scrub_json_reaches_keys_and_depth_and_leaves_other_values_alone() -> None:
    value = {"a-secret": [1, None, True, 0.5, {"x": ("the a-secret here",)}]}
    assert Scrubber(["a-secret"]).scrub_json(value) == {
        MARK: [1, None, True, 0.5, {"x": [f"the {MARK} here"]}]
    }
    assert Scrubber([]).scrub_json(value) == value


def test_a_scrubber_does_not_show_its_secrets() -> None:
    assert "topsecret" not in repr(Scrubber(["topsecret"]))


@given(
    secrets=st.lists(st.text(st.characters(codec="utf-8"), min_size=6, max_size=20), min_size=1, max_size=4),
    pieces=st.lists(st.text(st.characters(codec="utf-8"), max_size=10), max_size=5),
    data=st.data(),
)
def test_no_loaded_secret_survives_scrubbing(
    secrets: list[str], pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(piece + data.draw(st.sampled_from(secrets)) for piece in pieces)
    scrubbed = Scrubber(secrets).scrub(text)
    for secret in secrets:
        assume(
            not any(
                secret.startswith(MARK[i:]) or secret.endswith(MARK[:i]) or secret in MARK
                for i in range(1, len(MARK))
            )
        )
        assume(not re.fullmatch("[A-Za-z]{1,10}", secret))  # a plain word is no secret
        assert secret not in scrubbed
