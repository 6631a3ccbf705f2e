"""Decides what is a secret in a text: credentials we loaded, exactly; other people's, by the shape of well-known keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

MARK = "[redacted]"
MIN_SECRET = 6
"""Shorter "secrets" (`EMPTY`, `none`) are placeholders; scrubbing them would eat ordinary words."""


_WORD = re.compile("[A-Za-z]{1,10}")


class Scrubber:
    """Takes the loaded credentials out of anything that leaves the process: files, events, logs, prompts, errors.

    A secret is also found JSON-escaped and URL-quoted. Occurrences that overlap are removed as one.
    A plain word of up to ten letters - `ollama`, `secret`, as servers without a login are given - is no secret: taking it out would change
    tasks, answers and scores.
    """

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if not _WORD.fullmatch(secret) for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"Scrubber({len(self._forms)} forms)"

    def scrub(self, text: str) -> str:
        """The text with every loaded secret replaced by `[redacted]`."""
        spans = [span for form in self._forms if form in text for span in _spans(form, text)]
        if not spans:
            return text
        parts: list[str] = []
        end = 0
        for start, stop in _merged(spans):
            parts += (text[end:start], MARK)
            end = stop
        return "".join((*parts, text[end:]))

    def scrub_json(self, value: Any) -> Any:
        """A copy of a JSON value with every string, also dictionary keys, scrubbed."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, dict):
            return {self.scrub_json(key): self.scrub_json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.scrub_json(item) for item in value]
        return value


def redact_patterns(text: str) -> str:
    """The text with everything that has the shape of a well-known credential replaced by `[redacted]`, in linear time."""
    for rule in _RULES:
        if any(hint in text for hint in rule.hints):
            text = rule.pattern.sub(rule.replace, text)
    return text


# Every pattern either starts only where its own run of characters starts (a lookbehind on the class it consumes) or is bounded, so that
# no text makes it look at a character more than a constant number of times. The hints keep plain text free of regex work.


@dataclass(frozen=True, slots=True)
class _Rule:
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str] = MARK


def _after_prefix(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}"


def _if_token(match: re.Match[str]) -> str:
    """`Bearer` and `basic` are also English words; what follows is only a token if it has a digit or is longer than words are."""
    token = match[2]
    looks_random = len(token) >= 32 or any(character.isdigit() for character in token)
    return f"{match[1]}{MARK}" if looks_random else match[0]


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_RULES = (
    _Rule(
        ("PRIVATE KEY",),
        _compile(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
            # up to its END; without one (a cut text) only what looks like the key's own lines, not the prose after it
            r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\r\n]|\\[nr])*)"
        ),
    ),
    _Rule(
        ("sk-",),
        _compile(r"(?<![\w-])sk-(?:(?:ant|proj|svcacct|admin|or|lf)-[\w-]{16,}|(?:[a-z0-9]{1,16}-)?[A-Za-z0-9]{20,}[\w-]*)"),
    ),
    _Rule(("k_live_", "k_test_"), _compile(r"(?<!\w)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    _Rule(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _compile(r"(?<!\w)gh[pousr]_[A-Za-z0-9]{20,}")),
    _Rule(("github_pat_",), _compile(r"(?<!\w)github_pat_\w{20,}")),
    _Rule(("glpat-",), _compile(r"(?<![\w-])glpat-[\w-]{20,}")),
    _Rule(("hf_", "gsk_", "npm_"), _compile(r"(?<!\w)(?:hf|gsk|npm)_[A-Za-z0-9]{30,}")),
    _Rule(("xai-",), _compile(r"(?<![\w-])xai-[A-Za-z0-9]{20,}")),
    _Rule(("AKIA", "ASIA"), _compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])")),
    _Rule(("xox",), _compile(r"(?<![\w-])xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    _Rule(("AIza",), _compile(r"(?<![\w-])AIza[\w-]{30,}")),
    _Rule(("ya29.",), _compile(r"(?<![\w-])ya29\.[\w-]{20,}")),
    _Rule(("eyJ",), _compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")),
    _Rule(("earer", "EARER"), _compile(r"(?i)(?<!\w)(bearer[ \t]{1,4})([\w.~+/=-]{16,})"), _if_token),
    _Rule(("asic", "ASIC"), _compile(r"(?i)(authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?basic[ \t]{1,4})([\w+/=-]{8,})"), _if_token),
    _Rule(("://",), _compile(r"(://[^\s/:@\"'<>]*:)[^\s/@\"'<>]+(?=@)"), _after_prefix),
    _Rule(
        ("key=", "token=", "secret=", "password=", "sig="),
        _compile(r"(?i)([?&](?:api[-_]?key|key|access_token|token|client_secret|secret|password|sig)=)[^&\s\"'#<>]{6,}"),
        _after_prefix,
    ),
)


def _forms(secret: str) -> set[str]:
    """The secret as it stands, JSON-escaped and URL-quoted; nothing for what is too short to be one."""
    forms: set[str] = set()
    for plain in {secret, secret.strip()}:
        if len(plain) < MIN_SECRET:
            continue
        for escaped in (plain, json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]):
            forms |= {escaped, escaped.replace("/", "\\/")}
        for quoted in (quote(plain, errors="replace"), quote(plain, safe="", errors="replace"), quote_plus(plain, errors="replace")):
            forms |= {quoted, re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)}
    return forms


def _spans(form: str, text: str) -> Iterable[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


def _merged(spans: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    spans.sort()
    start, stop = spans[0]
    for next_start, next_stop in spans[1:]:
        if next_start < stop:
            stop = max(stop, next_stop)
        else:
            yield start, stop
            start, stop = next_start, next_stop
    yield start, stop
