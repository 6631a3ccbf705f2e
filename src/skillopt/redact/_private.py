"""Finds what belongs to a person in a session: passwords in commands, cookies, e-mail and phone numbers."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from skillopt.redact._spans import Span, is_token, secret

_STANDS_FOR = re.compile(
    r"[<{$%\[(*]|x{3,}|[A-Z][A-Z_]*\Z|your|example|password\Z|secret\Z|token\Z", re.ASCII
)


def _is_value(value: str) -> bool:
    """Whether the argument of a command is a value and not a word that stands for one."""
    return len(value) >= 4 and _STANDS_FOR.match(value) is None


def _is_mixed_value(value: str) -> bool:
    return len(value) >= 6 and _is_value(value) and any(character.isdigit() for character in value)


def _is_phone(value: str) -> bool:
    return 9 <= sum(character.isdigit() for character in value) <= 15


def _is_login(value: str) -> bool:
    """Whether this is a user and a password in base64, as Docker keeps them."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except ValueError:
        return False


_VALUE = r"(?P<quote>[\"'])?(?P<secret>(?(quote)[^\"'\n]{1,512}(?=(?P=quote))|(?!))|[^\s\"']+)"
_RULES = (
    secret(("sshpass",), rf"(?<!\w)sshpass[ \t]{{1,4}}-p[ \t]{{0,4}}{_VALUE}", _is_value),
    secret(
        ("mysql", "mariadb"),
        r"(?<!\w)(?:mysql\w{0,10}|mariadb[\w-]{0,10})(?=[ \t])[^\n|;&]{0,200}?[ \t]-p"
        r"[\"']?(?P<secret>[^\s\"'-][^\s\"']*)",
        _is_value,
    ),
    secret(
        ("redis-cli",), rf"(?<!\w)redis-cli(?=[ \t])[^\n|;&]{{0,200}}?[ \t]-a[ \t]{{1,4}}{_VALUE}", _is_value
    ),
    secret(
        ("ldap",),
        rf"(?<!\w)ldap[a-z]{{3,10}}(?=[ \t])[^\n|;&]{{0,300}}?[ \t]-w[ \t]{{1,4}}{_VALUE}",
        _is_value,
    ),
    secret(("login",), rf"(?<!\w)login(?=[ \t])[^\n|;&]{{0,200}}?[ \t]-p[ \t]{{1,4}}{_VALUE}", _is_value),
    secret(("-U",), r"(?<!\S)-U[ \t]{0,4}[\"']?[\w.\\/-]{1,64}%(?P<secret>[^\s\"']+)", _is_value),
    secret(("pass:",), rf"(?<![\w-])-pass(?:in|out)?[ \t]{{1,4}}pass:{_VALUE}", _is_value),
    secret(
        ("--pass", "--pw"),
        rf"(?<!\S)--(?:[a-z-]{{0,20}}-)?(?:password|passwd|pass|passphrase|pw)[ =]{{1,2}}{_VALUE}",
        _is_value,
    ),
    secret(
        ("--",), rf"(?<!\S)--(?:[a-z-]{{0,20}}-)?(?:token|secret|key)[ =]{{1,2}}{_VALUE}", _is_mixed_value
    ),
    secret(("_auth",), r"(?<![A-Za-z0-9])_auth[ \t]{0,4}=[ \t]{0,4}(?P<secret>[\w+/=-]{8,})"),
    secret(
        ("auth",),
        r"(?<!\w)auth\\{0,3}\"[ \t]{0,4}:[ \t]{0,4}\\{0,3}\"(?P<secret>[A-Za-z0-9+/]{8,1024}={0,2})",
        _is_login,
    ),
    secret(
        ("ookie", "OOKIE"),
        r"(?i)(?<![\w-])(?:set-)?cookie\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?"
        r"(?P<secret>[^\n\"'\\]+)",
        lambda value: "=" in value,
    ),
    secret(("-b ", "--cookie"), rf"(?<!\S)(?:-b|--cookie)[ =]{{1,2}}{_VALUE}", lambda value: "=" in value),
    secret(
        ("-u ", "--user"),
        r"(?<!\S)(?:-u|--user)[ =]{1,2}(?P<quote>[\"'])?(?!\d+:\d+\b)[^\s:\"']{1,200}:"
        r"(?P<secret>(?(quote)[^\"'\n]{1,512}(?=(?P=quote))|(?!))|[^\s\"']+)",
        lambda value: not value.startswith("$"),
    ),
    secret(
        ("PASSWORD", "password", "IDENTIFIED"),
        r"(?<!\w)(?:(?i:with[ \t]{1,4}(?:encrypted[ \t]{1,4})?password)|IDENTIFIED[ \t]{1,4}BY)[ \t]{1,4}"
        r"'(?P<secret>[^'\n]{1,512})(?=')",
        _is_value,
    ),
    secret(
        ("uthorization", "UTHORIZATION"),
        r"(?i)(?<!\w)authorization\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?"
        r"(?:(?:bearer|token|api-?key|key)[ \t]{1,4}\\{0,3}[\"']?"
        r"|(?:[a-z0-9-]{2,20}[ \t]{1,4})?(?=[\w.~+/=-]{16}))(?P<secret>[\w.~+/=-]{8,})",
        is_token,
    ),
    secret(
        ("@",), r"(?<![\w.+%-])(?!git@)[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24}(?![\w-])"
    ),
    secret(("+",), r"(?:(?<=[ \t\"'(:>,=])|\A)\+\d(?:[ ().-]{0,2}\d){7,15}(?![\w-])", _is_phone),
    secret(("-", "."), r"(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![\w-])"),
)


def private_values(text: str) -> Iterator[Span]:
    """Where a session names what is nobody else's business."""
    for rule in _RULES:
        yield from rule.spans(text)
