"""Finds secrets by their names: `DB_PASSWORD=hunter`, `"client_secret": "..."`, `the api key is ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillopt.redact._spans import MARK, Span, compiled, occurrences

_NAMES = (
    *("key", "token", "secret", "password", "passwords", "passwd", "pwd", "passphrase", "passcode", "pass"),
    *("credential", "credentials"),
)
"""The ends of names of secrets, not of `token_count`; `key` and `pass` need a word below before them."""
_KEY_OF = re.compile(r"(?:api|access|secret|account|private|signing|encryption|master)[-_ ]?\Z", re.ASCII)
_PASS_OF = re.compile(
    r"(?:db|database|sql|postgres|pg|redis|mongo|mail|smtp|imap|ftp|ssh|ldap|mq|http|proxy|admin|root|user)[-_]\Z"
)
_NEEDED = {"key": _KEY_OF, "pass": _PASS_OF}
_WORKING_FOLDER = compiled(r"(?:(?<![\w;])|(?<=\\[nrt]))(?:old)?pwd\Z")
_PATH = compiled(r"(?:~|[A-Za-z]:)?(?:[/\\][\w .@+-]*)+")
"""A shell's `PWD=/home/ann`; in a connection string (`;PWD=/x`) the same is a password."""
_WORTH_HIDING = frozenset(_NAMES[2:])
"""Names after which also a plain word is a secret."""
# Only 512 characters of a value are looked at, so that a text full of names stays linear.
_GIVEN = compiled(
    # {"name": "DB_PASSWORD", "value": "..."}, also in XML and YAML
    r"(?:(?:\\{0,3}[\"'],?\s{0,64}|\r?\n[ \t]{1,64})\\{0,3}[\"']?\w{0,16}[Vv]alue)?"
    r"\\{0,3}[\"'`]?\]?[ \t]{0,4}(?P<by>=>|:=|[=:\uff1d\uff1a]|(?<=[\"']),)[ \t]{0,4}"
    r"(?:(?:!!?[a-z]{2,16}|&\w{1,20})[ \t]{1,4})?"  # tags and anchors of YAML
    r"(?:\{(?=[\"'][^\"'\n]{16,512}[\"']\}))?(?:"
    r"[|>][0-9+-]{0,2}[ \t]{0,4}\r?\n[ \t]{1,64}(?P<block>\S{1,512})"
    r"|[rbfu]{0,2}\"(?P<double>(?:[^\"\n\\]|\\.|\"\"){1,512})"
    r"|[rbfu]{0,2}'(?P<single>(?:[^'\n\\]|\\{1,8}[^\\\n]|''){1,512})|`(?P<back>[^`\n]{1,512})"
    r"|\{(?P<braced>[^}\"'\n]{1,512}(?:\}\}[^}\"'\n]{0,128}){0,4})(?=\}(?!\}))"
    r"|(?P<slashes>\\{1,3})[\"'](?P<escaped>(?:[^\"'\n\\]|(?P=slashes)\\{1,8}[\"']){1,512})"
    r"|(?P<bare>[^\s\"'`,;&<>\\]{1,512}(?:\\{1,4}[ ][^\s\"'`,;&<>\\]{1,64}|'[\w!@#$%^*+.=-]{1,64}'){0,4}))"
)
_TOLD = compiled(r"[ \t]{1,4}(?:(?:is|was)[ \t]{1,4})?[\"'`]?(?P<told>[^\s\"'`,;&<>]{1,512})")
_ELEMENT = compiled(r">(?P<element>[^<>\n]{1,512})(?=</)")
_OPENED = compiled(r"<[\w:.-]{1,60}\Z")
_REST = {
    "block": compiled(r"\S*"),
    "element": compiled(""),
    "double": compiled(r"(?:[^\"\n\\]|\\.|\"\")*"),
    "single": compiled(r"(?:[^'\n\\]|\\{1,8}[^\\\n]|'')*"),
    "back": compiled(r"[^`\n]*"),
    "escaped": compiled(r"[^\"'\n\\]*"),
    "braced": compiled(r"(?:[^}\"'\n]|\}\})*"),
    "bare": compiled(r"[^\s\"'`,;&<>\\]*"),
}
_NO_VALUE = frozenset(
    {
        *("none", "null", "true", "false", "str", "string", "bytes", "bool", "optional", "undefined"),
        *("required", "unset"),
    }
)
_NAMED_FIELD = compiled(r"[\w.\s]*(?:[:!|].*)?")
"""What a template has between its braces."""
_CODE = compiled(r"[A-Za-z_]\w*[(\[.]")
_JOINED = compiled(r"[A-Za-z0-9]{2,}(?:-[A-Za-z0-9]{2,})+")
"""`abcdef-ghijkl`: no name of a variable, so a value."""
_AROUND_QUOTES = compiled(r"\w+(?:(?:\\{1,8}[\"']|\"\"|'')\w+)+")
_LONG_WORD = compiled(r"[a-z]{24,}|[A-Z]{24,}")
_PLACEHOLDER = re.compile(r"[<{$%\[(*.]|x{3,}|your[-_ ]|example|changeme", re.IGNORECASE | re.ASCII)


def named_values(text: str) -> Iterator[Span]:
    """Where values stand that follow the name of a secret, assigned or told."""
    lower = text.replace("\u0130", "i").lower()  # the one letter that gets longer when it is made small
    ends = sorted(
        {start + len(name) for name in _NAMES if name in lower for start in occurrences(name, lower)}
    )
    done = 0
    for end in ends:
        span = _value_span(text, lower, end) if end >= done else None
        if span is not None:
            yield span
            done = span[1]


def _value_span(text: str, lower: str, end: int) -> tuple[int, int] | None:
    """Where the secret stands whose name ends here."""
    if lower[end : end + 1].isalnum() or lower[end : end + 1] == "_":
        return None
    name = next(name for name in reversed(_NAMES) if lower.endswith(name, 0, end))
    before = lower[max(0, end - 16) : end]
    needed = _NEEDED.get(name)
    if needed is not None and not needed.search(before.removesuffix(name)):
        return None
    given = _GIVEN.match(text, end)
    if given is None and _OPENED.search(lower[max(0, end - 64) : end]):
        given = _ELEMENT.match(text, end)
    if given is not None:
        kind = given.lastgroup or "bare"
        if name == "pwd" and _WORKING_FOLDER.search(before) and _PATH.fullmatch(given[kind]):
            return None
        if not _is_given_secret(name, given[kind], kind, given.groupdict().get("by", ">")):
            return None
        rest = _REST[kind].match(text, given.end())
        return given.start(kind), rest.end() if rest else given.end()
    told = _TOLD.match(text, end)
    if told is None or not _is_told_secret(told["told"].rstrip(".,;:?)")):
        return None
    return told.start("told"), told.start("told") + len(told["told"].rstrip(".,;:?)"))


def _is_given_secret(name: str, value: str, kind: str, by: str) -> bool:
    plain = value.casefold().strip(" .)")
    if value.startswith(MARK) or plain in _NO_VALUE or plain == name:  # `password = password` is code
        return False
    if _PLACEHOLDER.match(value.lstrip("{") if kind == "braced" else value):
        return False
    if kind == "braced":  # ODBC quotes a password with braces: Password={a;b}
        is_hidden = name in _WORTH_HIDING or (len(value) >= 16 and " " not in value and _looks_random(value))
        return is_hidden and by == "=" and not _NAMED_FIELD.fullmatch(value)
    if by == ",":  # f("API_KEY", "..."): mostly a list of names
        return kind != "bare" and len(value) >= 12 and _is_mixed_case(value) and _looks_random(value)
    value = value.rstrip(")]}.,:") if kind == "bare" else value
    if name not in _WORTH_HIDING:
        is_joined = "=" in by and _JOINED.fullmatch(value) is not None
        is_joined = is_joined or (kind != "bare" and _AROUND_QUOTES.fullmatch(value) is not None)
        return (len(value) >= 8 and is_joined) or _looks_random(value)
    if kind != "bare":
        return len(value) >= 4
    # `password: str` and `password = ask()` are code, `PASSWORD=hunter` is a setting.
    return (
        _looks_random(value) or value.isdigit() or (len(value) >= 4 and "=" in by and not _CODE.match(value))
    )


def _is_mixed_case(value: str) -> bool:
    """Digits, small and capital letters in one word, as no word or name of a variable has them."""
    return " " not in value and all(any(map(has, value)) for has in (str.isdigit, str.islower, str.isupper))


def _looks_random(value: str) -> bool:
    """Letters with digits or signs among them, or longer than words; no number, path, call or attribute."""
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
    """In a sentence a secret is a word with digits or signs in it, or one longer than words are."""
    is_mixed = any(character.isdigit() or character in "!@#$%^&*" for character in value)
    is_long = _LONG_WORD.fullmatch(value) is not None
    return (
        len(value) >= 6
        and (is_mixed or is_long)
        and not value.isdigit()
        and not value.startswith(("/", "http"))
        and not _PLACEHOLDER.match(value)
    )
