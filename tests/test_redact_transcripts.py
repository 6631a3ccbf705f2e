"""Redaction of other people's sessions: a corpus of planted secrets, ordinary text that must stay, and time
that stays linear.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt.redact import MARK, redact_transcript

# A text and the part of it that must not survive. The values are made up.
PLANTED = [
    (
        "github",
        "push with ghp_0123456789abcdefABCDEF0123456789abcd now",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
    ),
    (
        "github fine",
        "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
        "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
    ),
    ("gitlab", "export X=glpat-0123456789abcdefABCD", "glpat-0123456789abcdefABCD"),
    ("stripe", "sk_live_0123456789abcdefABCD", "sk_live_0123456789abcdefABCD"),
    ("hugging face", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"),
    ("npm", "npm_abcdefghijklmnopqrstuvwxyzABCDEF0123", "npm_abcdefghijklmnopqrstuvwxyzABCDEF0123"),
    ("aws temporary", "ASIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    (
        "aws secret",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("pypi", "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDA", "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDA"),
    ("docker", "dckr_pat_abcdefghijklmnopqrstuvwxyz0", "dckr_pat_abcdefghijklmnopqrstuvwxyz0"),
    ("vault", "hvs.CAESIJabcdefghijklmnopqrstuvwxyz0", "hvs.CAESIJabcdefghijklmnopqrstuvwxyz0"),
    ("sendgrid", "SG.abcdefghijklmnop0123.ABCDEFGHIJKLMNOPqrst", "abcdefghijklmnop0123"),
    ("slack app", "xapp-1-A0123456789-abcdef0123", "xapp-1-A0123456789-abcdef0123"),
    (
        "slack hook",
        "curl https://hooks.slack.com/services/T00000000/B00000000/XXXXabcdXXXX",
        "T00000000/B00000000/XXXXabcdXXXX",
    ),
    ("age", "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQ", "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQ"),
    ("url", "postgres://ann:s3cret@db:5432/x", "s3cret"),
    ("bare bearer", "curl -H 'bearer abc123def456ghi789'", "abc123def456ghi789"),
    ("authorization", "Authorization: token 0123456789abcdefghij", "0123456789abcdefghij"),
    ("cookie", "Cookie: sid=31d4d96e407aad42; theme=dark", "31d4d96e407aad42"),
    ("set cookie", "< set-cookie: session=abc.def; HttpOnly", "abc.def"),
    ("cookie in json", '{"cookie": "sid=31d4d96e"}', "31d4d96e"),
    ("curl cookie", "curl -b sid=31d4d96e https://x", "31d4d96e"),
    ("curl user", "curl -u ann:hunter2 https://x", "hunter2"),
    ("mail", "write to ann.lee+shop@mail.example.org please", "ann.lee+shop@mail.example.org"),
    ("phone", "call +49 151 1234 5678 today", "1234 5678"),
    ("phone us", "or (415) 555-0132", "555-0132"),
    ("setting", "DB_PASSWORD=hunter", "hunter"),
    ("setting with digits", "STRIPE_SECRET=abc12345", "abc12345"),
    ("connection", "Server=x;Password=opensesame;User=ann", "opensesame"),
    ("yaml", "api_key: 9f86d081884c7d65", "9f86d081884c7d65"),
    ("header", "x-api-key: 9f86d081884c7d65", "9f86d081884c7d65"),
    ("json", '{"password": "correct horse battery"}', "correct horse battery"),
    ("json with a quote", '{"password": "it\'s \\"me\\" 4"}', "me"),
    ("json in json", '"{\\"client_secret\\": \\"abc def\\"}"', "abc def"),
    ("python", "connect(password='p4ss word')", "p4ss word"),
    ("subscript", "os.environ['DB_PASSWORD'] = 'abcd'", "abcd"),
    ("go", 'token := "abcd1234efgh"', "abcd1234efgh"),
    ("ruby", ":secret => 'abcd1234'", "abcd1234"),
    ("back quotes", "the password is `p4ss-w0rd`", "p4ss-w0rd"),
    ("told", "my password is hunter2, use it", "hunter2"),
    ("told key", "the api key is abc123def456.", "abc123def456"),
    ("passphrase", 'passphrase: "open sesame"', "sesame"),
    (
        "azure",
        "DefaultEndpointsProtocol=https;AccountKey=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH==",
        "abcdefghijklmnopqrstuvwxyz0123456789",
    ),
    (
        "shared access",
        "sig=abc%2Bdef&SharedAccessKey=abcdefghijklmnopqrstuvwxyz0123",
        "abcdefghijklmnopqrstuvwxyz0123",
    ),
    ("upper case", "PASSWORD: Hunter2!", "Hunter2!"),
    ("turkish", "İ password=hunter2x", "hunter2x"),
    ("number", "password: 123456", "123456"),
    ("very long", "api_key=" + "a1b2" * 3_000, "a1b2a1b2"),
    ("long in quotes", 'password="' + "open sesame " * 3_000 + '"', "sesame"),
]

PLAIN = [
    "max_token: 4096, max_tokens=100000 and token_count: 12abc34def",
    "the token refresh-flow and the password reset-page are done",
    "def login(user: str, password: str, token: Optional[str] = None) -> None:",
    "password = getpass.getpass(); token = os.environ['TOKEN']; secret = settings.secret",
    'api_key="${API_KEY}" and password: <your password> and token={{ token }}',
    "The password is required. A secret is a secret: nobody knows. The key: practice.",
    "primary key: id, foreign key: order_id, sort_key=created_at_descending, cache key = user/12",
    "@@ -1,7 +1,7 @@\n+12345678901\n-12345678901",
    "git@github.com:ann/shop.git, react@18.2.0, user@host, @decorator.name, 10.0.0.1",
    "Cookie: a small file. -b is a flag, and so is -u",
    "2026-11-14 09:00:00 and 1794646800000 and 3.14159 and 127.0.0.1:8000",
    "Überraschung: naïve café — “quotes” … 中文 テスト",
]


@pytest.mark.parametrize(
    ("text", "secret"), [pytest.param(text, secret, id=name) for name, text, secret in PLANTED]
)
def test_a_planted_secret_is_found_wherever_it_stands(text: str, secret: str) -> None:
    for around in (text, f"\n{text}\n", f"before {text} after", f"({text})", f"- {text}\n- more"):
        redacted = redact_transcript(around)
        assert secret not in redacted
        assert MARK in redacted


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_and_code_stay_as_they_are(text: str) -> None:
    assert redact_transcript(text) == text


def test_what_was_redacted_once_stays_so() -> None:
    for _, text, _ in PLANTED:
        once = redact_transcript(text)
        assert redact_transcript(once) == once


UNITS = [
    *(
        "a_",
        "a",
        "A1",
        " ",
        "-",
        "é",
        "İ",
        "password",
        "password=",
        'password:"',
        "password='\\",
        "password=(",
        "token ",
        "token is ",
        "key ",
    ),
    *(
        "api key ",
        "api_key=",
        "secret_key",
        '"password": "',
        'password=\\"',
        "cookie: ",
        "cookie=",
        "set-cookie:",
        "-b ",
        "-u a:",
        "--user ",
    ),
    *(
        "authorization: ",
        "authorization: a ",
        "a@",
        "a@b.",
        "@",
        "a.b@c-",
        "+1 ",
        "+1",
        "123-",
        "(123) ",
        "token=token(",
        "secret: x, ",
    ),
    *(
        "Password={",
        "Password={{x}}",
        'password=""',
        'password="" ',
        "password='\\\\'",
        'password=\\"a\\\\"',
        "password=a'b'",
        "password=\\ ",
        'password" value',
        '"password", ',
        "password\n value: ",
        "token: !a ",
        "db_pass=",
    ),
    *(
        "://a:b@",
        "://a:@@",
        "://a:b@c@",
        "--password '",
        '-u "a:',
        "authorization: bearer ",
        'bearer "',
        "sk-a1",
    ),
    *("with password '", "IDENTIFIED BY ", "PWD=/a", "PWD=//"),
    f"PWD={400 * chr(47)}%",
]


@pytest.mark.parametrize("unit", UNITS)
def test_much_text_of_near_misses_is_read_in_linear_time(unit: str) -> None:
    end = " PRIVATE KEY eyJ AKIA sig= earer asic ookie @ + - ."
    redact_transcript(unit + end)  # patterns are compiled when they are first needed
    started = time.process_time()
    redact_transcript(unit * (100_000 // len(unit)) + end)
    assert time.process_time() - started < 10


@pytest.mark.slow
def test_twice_the_text_takes_about_twice_the_time() -> None:
    """Forty kilobytes of `a_` once took half a minute."""
    taken = []
    for size in (50_000, 400_000):
        started = time.process_time()
        for unit in ("a_", "password=(", "api key ", "a@b.", "Password={{x}}", 'password" value', "PWD=/a"):
            redact_transcript(unit * (size // len(unit)))
        taken.append(time.process_time() - started)
    assert taken[1] < 20 * taken[0] + 0.2  # quadratic time would make it 64


SECRETS = st.sampled_from(
    [
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "glpat-0123456789abcdefABCD",
        "AKIAIOSFODNN7EXAMPLE",
        "sk_live_0123456789abcdefABCD",
    ]
)
PROSE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)


@given(
    before=PROSE,
    secret=SECRETS,
    after=PROSE,
    edges=st.sampled_from([" ", "\n", '""', "()", ",,", "::", "<>", "="]),
)
def test_a_key_between_any_two_texts_is_found(before: str, secret: str, after: str, edges: str) -> None:
    assert secret not in redact_transcript(before + edges[0] + secret + edges[-1] + after)


@given(
    name=st.sampled_from(["password", "DB_PASSWORD", "clientSecret", "client_secret", "passwd", "db-pwd"]),
    join=st.sampled_from(["=", ": ", " = ", '": "', "': '", ' := "']),
    value=st.text("abcdefghXYZ0123456789!-_", min_size=6, max_size=60),
)
def test_a_value_behind_a_secrets_name_is_found(name: str, join: str, value: str) -> None:
    assume(
        any(character.isdigit() for character in value) and any(character.isalpha() for character in value)
    )
    assume(not value.lower().startswith(("xxx", "your")))
    assert value not in redact_transcript(f"set {name}{join}{value}\nnext line")


@given(st.text(max_size=200))
def test_any_text_can_be_redacted(text: str) -> None:
    redact_transcript(text)
