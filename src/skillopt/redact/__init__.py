"""Takes secrets out of text: credentials we loaded, exactly; other people's, by the shape of well-known keys.

`redact_patterns` knows only shapes that are nothing but credentials, so any text may pass through it.
`redact_transcript` also takes what other people's sessions hold: values behind a secret's name, passwords in
commands, cookies, e-mail addresses, phone numbers. Both take linear time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from skillopt.redact._decoded import as_written_and_decoded
from skillopt.redact._named import named_values
from skillopt.redact._private import private_values
from skillopt.redact._scrubber import Scrubber
from skillopt.redact._shapes import credentials
from skillopt.redact._spans import MARK, replaced

__all__ = [
    "MARK",
    "Scrubber",
    "looks_secret",
    "names_secret",
    "redact_patterns",
    "redact_transcript",
    "secret_variables",
    "without_password",
]

_SECRET_NAME = re.compile(r"(?i).*(?:api_?key|access_?key|auth|token|secret|password|passwd)")
_SECRET_VALUE = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])(?!/|\w+://)\S{16,}")
_MIN_DIFFERENT = 10
"""Different characters that a value has which is nothing but a secret."""


def redact_patterns(text: str) -> str:
    """The text with everything that has the shape of a well-known credential replaced by `[redacted]`."""
    spans = [span for reading in as_written_and_decoded(text) for span in reading.found(credentials)]
    return replaced(text, spans)


def redact_transcript(text: str) -> str:
    """The text without credentials and without what belongs to a person; for transcripts and what is made of
    them. Task and skill text that the user gives is left as it is.
    """
    finders = (credentials, named_values, private_values)
    readings = as_written_and_decoded(text)
    spans = [span for reading in readings for find in finders for span in reading.found(find)]
    return replaced(text, spans)


def looks_secret(key: str) -> bool:
    """True for a key that holds a credential by its name, also when it is misspelt or not ours."""
    last = key.rpartition(".")[2].lower()
    end = "_".join(last.split("_")[-2:])
    return any(word in last for word in ("api_key", "apikey", "secret", "password")) or bool(
        difflib.get_close_matches(end, ["api_key"], n=1, cutoff=0.8)
    )


def names_secret(variable: str) -> bool:
    """True for a variable of the environment that holds a credential by its name."""
    return _SECRET_NAME.fullmatch(variable) is not None or looks_secret(variable)


def secret_variables(variables: Mapping[str, str]) -> list[str]:
    """Values that are secrets by their name, and that no text holds by chance: 16 characters or more, 10 or
    more different ones, with letters and digits and without a blank, no path and no address.
    """
    return [
        value
        for name, value in variables.items()
        if len(set(value)) >= _MIN_DIFFERENT and _SECRET_VALUE.fullmatch(value) and names_secret(name)
    ]


def without_password(url: str) -> str:
    """An endpoint as it may be shown."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"
