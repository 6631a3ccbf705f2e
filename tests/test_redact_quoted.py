"""Redaction of values that are quoted, escaped or cut in the ways of programs: doubled quotes, braces, pairs
of a name and a value, URLs with an `@` in the password; in every place where such lines stand.

All values are made up, and put together here, so that no scanner of secrets takes this file for a leak.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest

from skillopt.redact import redact_patterns, redact_transcript

MIX = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
B64 = MIX + MIX + "/Qr+x=="

# A text and the parts of it that must not survive.
REPORTED = [
    ('Password="top""secret"', ["top", "secret"]),
    ("Password={top}}secret}", ["top", "secret"]),
    ("AccountKey = {" + B64 + "}", [MIX]),
    (r'token="top\"secret"', ["top", "secret"]),
    (r"api_key='top\'secret'", ["top", "secret"]),
    ('Authorization: Bearer "opaquevalue123', ["opaquevalue123"]),
    ("token abcdefghijklmnopqrstuvwxyz", ["abcdefghijklm"]),
    ("sk-" + "1234567890abcdef", ["1234567890abcdef"]),
    ("postgres://u:p@ssw0rd@h", ["p@ss", "ssw0rd"]),
]

FRESH = [
    ('PWD="qu""ar""tz"', ["tz"]),
    ('Server=x;Password="a;""b""c9";User=ann', ["c9"]),
    ("Pwd={{x}}y}}z9};Uid=ann", ["z9"]),
    ("refresh_token='left\\'right'", ["left", "right"]),
    ('access_token: "left\\"right"', ["left", "right"]),
    ("SharedAccessKey = {" + MIX + "=}", [MIX]),
    ("account_key = {'" + B64 + "'}", [MIX]),
    ("Authorization: Bearer 'opaque1value", ["opaque1value"]),
    ('"Authorization": "Bearer opaque9value"', ["opaque9value"]),
    ("authorization=Bearer%20opaque9value", ["opaque9value"]),
    ("Authorization: token zyxwvutsrqponmlkjihgfedcba", ["zyxwvutsrqp"]),
    ("Proxy-Authorization: Bearer opaque-9-value", ["opaque-9-value"]),
    ('Bearer "' + MIX[:20] + '"', [MIX[:20]]),
    ("use token ZYXWVUTSRQPONMLKJIHGFEDCBA for it", ["ZYXWVUTSRQP"]),
    ("the secret qwertyuiopasdfghjklzxcvbnm was sent", ["qwertyuiopas"]),
    ("sk-" + "abcdef0123456789", ["abcdef0123456789"]),
    ("OPENAI=sk-" + MIX[:18], [MIX[:18]]),
    ("mysql://root:p@ss:w0rd@db:3306/x", ["p@ss", "w0rd"]),
    ("redis://:a@b@c1@cache:6379/0", ["a@b", "c1"]),
    ("mongodb+srv://ann:x@y@c0.example.net/db", ["@y"]),
    ("https://ann:tok@en@git.example.org/a/b.git", ["@en"]),
    ('password="""triple word"""', ["triple word"]),
    ("net use Z: /user:ann --pw sesame; set DB_PASS=sesame", ["DB_PASS=sesame"]),
    ("export DB_PASSWORD=top'secret'", ["top", "secret"]),
    ("DB_PASSWORD=open\\ sesame", ["open", "sesame"]),
    ('<add key="DbPassword" value="sesame" />', ["sesame"]),
    ('<property name="password" value="sesame"/>', ["sesame"]),
    ('{"name": "DB_PASSWORD", "value": "sesame"}', ["sesame"]),
    ("- name: API_TOKEN\n  value: " + MIX, [MIX]),
    ('os.environ.setdefault("API_KEY", "' + MIX + '")', [MIX]),
    ("ALTER USER ann WITH PASSWORD 'sesame';", ["sesame"]),
    ("CREATE USER ann IDENTIFIED BY 'sesame';", ["sesame"]),
    ("SMTP_PASS=sesame", ["sesame"]),
    ("curl --user 'ann:open sesame' https://h", ["open", "sesame"]),
    ("app --password 'open sesame' run", ["open", "sesame"]),
    ("password: !!str sesame9", ["sesame9"]),
    ("password: &db sesame9", ["sesame9"]),
]


def in_json_twice(text: str) -> str:
    return json.dumps(json.dumps({"a": text}, ensure_ascii=False), ensure_ascii=False)


PLACES: dict[str, Callable[[str], str]] = {
    "a line": lambda text: f"before\n{text}\nafter",
    "a sentence": lambda text: f"He wrote {text} yesterday.",
    "brackets": lambda text: f"({text})",
    "a quotation": lambda text: f"> {text}\n> more",
    "a diff": lambda text: f"-old\n+{text}\n",
    "a log": lambda text: f"2026-11-14 09:00:00,123 INFO [worker-3] {text}",
    "a prompt of a shell": lambda text: f"ann@host:~$ {text}\n",
    "code": lambda text: f"```\n{text}\n```",
    "a colour": lambda text: f"\x1b[32m{text}\x1b[0m",
    "a spelt colour": lambda text: f"\\u001b[31m{text}\\u001b[0m",
    "json": lambda text: json.dumps({"text": text}, ensure_ascii=False),
    "ascii json": lambda text: json.dumps({"text": f"ä {text}"}),
    "json in json": in_json_twice,
    "html": lambda text: f"<pre>{html.escape(text)}</pre>",
    "after a literal newline": lambda text: f"done\\n{text}\\nnext",
    "an invisible blank": lambda text: f"\u200b{text}",
    "a comment": lambda text: f"    # {text}",
    "a list": lambda text: f"- {text}\n- more",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_quoted_value_is_found_whole_in_every_place(place: str) -> None:
    missed = []
    for text, secrets in [*REPORTED, *FRESH]:
        left = redact_transcript(PLACES[place](text))
        missed += [(text, left) for secret in secrets if secret in left]
    assert missed == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (text, secrets[-1])
        for text, secrets in [*REPORTED, *FRESH]
        if text.startswith(("sk-", "post", "https"))
    ],
)
def test_a_credential_by_shape_is_found_by_the_patterns_alone(text: str, secret: str) -> None:
    assert secret not in redact_patterns(f"before {text} after")
