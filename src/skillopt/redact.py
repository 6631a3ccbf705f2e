"""Decides what is a secret in a text: credentials we loaded, exactly; other people's, by the shape of
well-known keys.
"""

from __future__ import annotations

import difflib
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


def looks_secret(key: str) -> bool:
    """True for a key that holds a credential by its name, also when it is misspelt or not ours."""
    last = key.rpartition(".")[2].lower()
    end = "_".join(last.split("_")[-2:])
    return any(word in last for word in ("api_key", "apikey", "secret", "password")) or bool(
        difflib.get_close_matches(end, ["api_key"], n=1, cutoff=0.8)
    )


def without_password(url: str) -> str:
    """An endpoint as it may be shown."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"


class Scrubber:
    """Takes the loaded credentials out of anything that leaves the process: files, events, logs, prompts,
    errors.

    A secret is also found JSON-escaped and URL-quoted. Occurrences that overlap are removed as one.
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
    """The text with everything that has the shape of a well-known credential replaced by `[redacted]`, in
    linear time.
    """
    for rule in _RULES:
        if any(hint in text for hint in rule.hints):
            text = rule.pattern.sub(rule.replace, text)
    return text


def redact_transcript(text: str) -> str:
    """What other people's sessions need on top of `redact_patterns`: values behind a secret's name, cookies,
    e-mail and phone numbers.

    Linear in the text as well. It is for transcripts and what is made of them; task and skill text that the
    user gives is left as it is.
    """
    text = _without_named(redact_patterns(text))
    for rule in _PRIVATE_RULES:
        if any(hint in text for hint in rule.hints):
            text = rule.pattern.sub(rule.replace, text)
    return text


# Every pattern either starts only where its own run of characters starts (a lookbehind on the class it
# consumes) or is bounded, so that no text makes it look at a character more than a constant number of times.
# The hints keep plain text free of regex work.


@dataclass(frozen=True, slots=True)
class _Rule:
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str] = MARK


def _after_prefix(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}"


def _if_token(match: re.Match[str]) -> str:
    """`Bearer` and `basic` are also English words; what follows is only a token if it has a digit or is
    longer than words are.
    """
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
            # up to its END; without one (a cut text) only what looks like the key's own lines, not the prose
            # after it
            r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?:"
            r" BLOCK)?-----|(?:[A-Za-z0-9+/=\r\n]|\\[nr])*)"
        ),
    ),
    _Rule(
        ("sk-",),
        _compile(
            r"(?<![\w-])sk-(?:(?:ant|proj|svcacct|admin|or|lf)-[\w-]{16,}|(?:[a-z0-9]{1,16}-)?[A-Za-z0-9]{20,}[\w-]*)"
        ),
    ),
    _Rule(("k_live_", "k_test_"), _compile(r"(?<!\w)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    _Rule(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _compile(r"(?<!\w)gh[pousr]_[A-Za-z0-9]{20,}")),
    _Rule(("github_pat_",), _compile(r"(?<!\w)github_pat_\w{20,}")),
    _Rule(("glpat-",), _compile(r"(?<![\w-])glpat-[\w-]{20,}")),
    _Rule(("hf_", "gsk_", "npm_"), _compile(r"(?<!\w)(?:hf|gsk|npm)_[A-Za-z0-9]{30,}")),
    _Rule(("xai-",), _compile(r"(?<![\w-])xai-[A-Za-z0-9]{20,}")),
    _Rule(("AKIA", "ASIA"), _compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])")),
    _Rule(("xox", "xapp-"), _compile(r"(?<![\w-])(?:xox[abcdeoprs]|xapp)-[A-Za-z0-9-]{10,}")),
    _Rule(
        ("hooks.slack.com/",),
        _compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]{10,}"),
        _after_prefix,
    ),
    _Rule(
        ("pypi-", "dckr_pat_", "hvs.", "dop_v1_", "lin_api_"),
        _compile(r"(?<![\w-])(?:pypi-|dckr_pat_|hvs\.|dop_v1_|lin_api_)[\w-]{20,}"),
    ),
    _Rule(("SG.",), _compile(r"(?<![\w.-])SG\.[\w-]{16,}\.[\w-]{16,}")),
    _Rule(("AGE-SECRET-KEY-1",), _compile(r"(?<![\w-])AGE-SECRET-KEY-1[A-Z0-9]{20,}")),
    _Rule(("AIza",), _compile(r"(?<![\w-])AIza[\w-]{30,}")),
    _Rule(("ya29.",), _compile(r"(?<![\w-])ya29\.[\w-]{20,}")),
    _Rule(("eyJ",), _compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")),
    _Rule(("earer", "EARER"), _compile(r"(?i)(?<!\w)(bearer[ \t]{1,4})([\w.~+/=-]{16,})"), _if_token),
    _Rule(
        ("asic", "ASIC"),
        _compile(r"(?i)(authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?basic[ \t]{1,4})([\w+/=-]{8,})"),
        _if_token,
    ),
    _Rule(("://",), _compile(r"(://[^\s/:@\"'<>]*:)[^\s/@\"'<>]+(?=@)"), _after_prefix),
    _Rule(
        ("key=", "token=", "secret=", "password=", "sig="),
        _compile(
            r"(?i)([?&](?:api[-_]?key|key|access_token|token|client_secret|secret|password|sig)=)[^&\s\"'#<>]{6,}"
        ),
        _after_prefix,
    ),
)

_NAMES = (
    "key",
    "token",
    "secret",
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "credential",
    "credentials",
)
"""What the name of a secret ends in. A name that goes on (`token_count`) is another's; `key` needs one of the
words below before it.
"""
_KEY_OF = re.compile(r"(?:api|access|secret|account|private|signing|encryption|master)[-_ ]?\Z", re.ASCII)
_WORTH_HIDING = frozenset(_NAMES[2:])
"""Names after which also a plain word is a secret."""
# Of a value 512 characters are looked at; a longer one is judged by them. So a text full of names stays
# linear.
_GIVEN = _compile(
    r"\\{0,3}[\"'`]?\]?[ \t]{0,4}(?P<by>=>|:=|=|:)[ \t]{0,4}(?:"
    r"[rbfu]{0,2}\"(?P<double>(?:[^\"\n\\]|\\.){1,512})|[rbfu]{0,2}'(?P<single>(?:[^'\n\\]|\\.){1,512})|`(?P<back>[^`\n]{1,512})"
    r"|\\{1,3}[\"'](?P<escaped>[^\"'\n\\]{1,512})|(?P<bare>[^\s\"'`,;&<>\\]{1,512}))"
)
_TOLD = _compile(r"[ \t]{1,4}(?:(?:is|was)[ \t]{1,4})?[\"'`]?(?P<told>[^\s\"'`,;&<>]{1,512})")
_REST = {
    "double": _compile(r"(?:[^\"\n\\]|\\.)*"),
    "single": _compile(r"(?:[^'\n\\]|\\.)*"),
    "back": _compile(r"[^`\n]*"),
    "escaped": _compile(r"[^\"'\n\\]*"),
    "bare": _compile(r"[^\s\"'`,;&<>\\]*"),
}
_NO_VALUE = frozenset(
    {
        "none",
        "null",
        "true",
        "false",
        "str",
        "string",
        "bytes",
        "bool",
        "optional",
        "undefined",
        "required",
        "unset",
    }
)
_CODE = _compile(r"[A-Za-z_]\w*[(\[.]")
_PLACEHOLDER = re.compile(r"[<{$%\[(*.]|x{3,}|your[-_ ]|example|changeme", re.IGNORECASE | re.ASCII)


def _without_named(text: str) -> str:
    """The text without the values that follow the name of a secret, assigned or told."""
    lower = text.replace("\u0130", "i").lower()  # the one letter that gets longer when it is made small
    ends = sorted({start + len(name) for name in _NAMES if name in lower for start in _starts(name, lower)})
    parts: list[str] = []
    done = 0
    for end in ends:
        span = _value_span(text, lower, end) if end >= done else None
        if span is not None:
            parts += (text[done : span[0]], MARK)
            done = span[1]
    return "".join((*parts, text[done:])) if parts else text


def _starts(form: str, text: str) -> Iterable[int]:
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + len(form))


def _value_span(text: str, lower: str, end: int) -> tuple[int, int] | None:
    """Where the secret stands whose name ends here."""
    if lower[end : end + 1].isalnum() or lower[end : end + 1] == "_":
        return None
    name = next(name for name in reversed(_NAMES) if lower.endswith(name, 0, end))
    if name == "key" and not _KEY_OF.search(lower[max(0, end - 16) : end - 3]):
        return None
    given = _GIVEN.match(text, end)
    if given is not None:
        kind = given.lastgroup or "bare"
        if not _is_given_secret(name, given[kind], kind, given["by"]):
            return None
        rest = _REST[kind].match(text, given.end())
        return given.start(kind), rest.end() if rest else given.end()
    told = _TOLD.match(text, end)
    if told is None or not _is_told_secret(told["told"].rstrip(".,;:?)")):
        return None
    return told.start("told"), told.start("told") + len(told["told"].rstrip(".,;:?)"))


def _is_given_secret(name: str, value: str, kind: str, by: str) -> bool:
    if value.startswith(MARK) or value.casefold().strip(" .)") in _NO_VALUE or _PLACEHOLDER.match(value):
        return False
    value = value.rstrip(")]}.,:") if kind == "bare" else value
    if name not in _WORTH_HIDING:
        return _looks_random(value)
    if kind != "bare":
        return len(value) >= 4
    # `password: str` and `password = ask()` are code, `PASSWORD=hunter` is a setting.
    return (
        _looks_random(value) or value.isdigit() or (len(value) >= 4 and "=" in by and not _CODE.match(value))
    )


def _looks_random(value: str) -> bool:
    """Letters with digits or signs among them, or longer than words are. A number is a count; a path, a call
    or an attribute is code.
    """
    if (
        len(value) < 6
        or value.isdigit()
        or value.startswith(("/", "./", "~/", "http://", "https://"))
        or _CODE.match(value)
    ):
        return False
    has_letter = any(character.isalpha() for character in value)
    is_mixed = any(character.isdigit() or character in "!@#$%^&*+=~?" for character in value)
    return (has_letter and is_mixed) or (
        len(value) >= 16 and not any(character in " ._" for character in value)
    )


def _is_told_secret(value: str) -> bool:
    """In a sentence only a word with digits or signs in it is taken for a secret."""
    is_mixed = any(character.isdigit() or character in "!@#$%^&*" for character in value)
    return (
        len(value) >= 6
        and is_mixed
        and not value.isdigit()
        and not value.startswith(("/", "http"))
        and not _PLACEHOLDER.match(value)
    )


def _cookies(match: re.Match[str]) -> str:
    return f"{match[1]}{MARK}" if "=" in match[2] else match[0]


def _phone(match: re.Match[str]) -> str:
    return MARK if 9 <= sum(character.isdigit() for character in match[0]) <= 15 else match[0]


_PRIVATE_RULES = (
    _Rule(
        ("ookie", "OOKIE"),
        _compile(
            r"(?i)((?<![\w-])(?:set-)?cookie\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?)([^\n\"'\\]+)"
        ),
        _cookies,
    ),
    _Rule(("-b ", "--cookie"), _compile(r"((?<!\S)(?:-b|--cookie)[ =]{1,2}[\"']?)([^\s\"']+)"), _cookies),
    _Rule(
        ("-u ", "--user"),
        _compile(r"((?<!\S)(?:-u|--user)[ =]{1,2}[\"']?[^\s:\"']{1,200}:)[^\s\"']+"),
        _after_prefix,
    ),
    _Rule(
        ("uthorization", "UTHORIZATION"),
        _compile(
            r"(?i)((?<!\w)authorization\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?(?:[a-z0-9-]{2,20}["
            r" \t]{1,4})?)([\w.~+/=-]{16,})"
        ),
        _if_token,
    ),
    _Rule(
        ("@",),
        _compile(r"(?<![\w.+%-])(?!git@)[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24}(?![\w-])"),
    ),
    _Rule(("+",), _compile(r"(?:(?<=[ \t\"'(:>,=])|\A)\+\d(?:[ ().-]{0,2}\d){7,15}(?![\w-])"), _phone),
    _Rule(("-", "."), _compile(r"(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![\w-])")),
)


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
