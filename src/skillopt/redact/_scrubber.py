"""Takes the credentials that we loaded out of text, exactly."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from skillopt.redact._decoded import as_written_and_visible
from skillopt.redact._spans import Span, occurrences, replaced

MIN_SECRET = 6
"""Shorter "secrets" (`EMPTY`, `none`) are placeholders; scrubbing them would eat ordinary words."""

_WORD = re.compile("[A-Za-z]{1,10}")
_MIN_ENCODED = 12
_MIN_DIFFERENT = 6
"""What a secret needs (characters, different ones) for its encodings to be in no text by chance."""


class Scrubber:
    """Takes the loaded credentials out of what leaves the process: files, events, logs, prompts, errors.

    A secret is also found JSON-escaped and URL-quoted, with characters of no width in it and, unless it is
    short, in base64, hex, capitals or reversed. Occurrences that overlap are removed as one.
    A plain word of up to ten letters - `ollama`, `secret`, as servers without a login are given - is no
    secret: taking it out would change tasks, answers and scores.
    """

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if not _WORD.fullmatch(secret) for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"Scrubber({len(self._forms)} forms)"

    def scrub(self, text: str) -> str:
        """The text with every loaded secret replaced by `[redacted]`."""
        if not self._forms:
            return text
        readings = as_written_and_visible(text)
        return replaced(text, [span for reading in readings for span in reading.found(self._places)])

    def _places(self, text: str) -> Iterator[Span]:
        for form in self._forms:
            for start in occurrences(form, text, overlapping=True):
                yield start, start + len(form)

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


def _forms(secret: str) -> set[str]:
    """The secret as it stands, JSON-escaped and URL-quoted; nothing for what is too short to be one."""
    forms: set[str] = set()
    for plain in {secret, secret.strip()}:
        if len(plain) < MIN_SECRET:
            continue
        for escaped in (plain, json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]):
            forms |= {escaped, escaped.replace("/", "\\/")}
        for quoted in (
            quote(plain, errors="replace"),
            quote(plain, safe="", errors="replace"),
            quote_plus(plain, errors="replace"),
        ):
            forms |= {quoted, re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)}
        if len(plain) >= _MIN_ENCODED and len(set(plain)) >= _MIN_DIFFERENT:
            forms |= _encoded(plain)
    return forms


def _encoded(plain: str) -> set[str]:
    """Encoded forms of a secret: reversed, hex, base64; also upper and lower case if it contains a digit."""
    raw = plain.encode(errors="replace")
    forms = {plain[::-1], raw.hex(), raw.hex().upper()}
    if any(character.isdigit() for character in plain):
        forms |= {plain.upper(), plain.lower()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        forms |= {whole, whole.rstrip("=")}
        for offset, shared in enumerate((0, 2, 3)):  # characters that hold bits of what stands before
            forms.add(encode(bytes(offset) + raw).decode()[shared : (offset + len(raw)) * 8 // 6])
    return forms
