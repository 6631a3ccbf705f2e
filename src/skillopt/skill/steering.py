"""Flags what an edit adds to a skill that could steer an agent: commands, links, permissions, credentials,
orders to hide or to ignore, invisible letters, and words that came out of pasted text.

A flag is no verdict: it says what a person has to read before the edit is theirs. What stands in the
person's own texts is not flagged, compared as the whole command, link or sentence, never by a single word.
Patterns see forms, not meanings: harm in plain words has no form.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from skillopt.skill._steering_forms import HOST, Compared, is_denied, orders

Part = TypeVar("Part")
RUN = 8
"""Consecutive words of pasted text that are a copy."""
_EDGE = 110
"""Characters that are quoted of the beginning and the end of what is long."""
_UNSEEN = "characters that nobody sees"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringFlag:
    """Why a person should read what an edit adds, and the words that are meant."""

    reason: str
    quoted: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.quoted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrigins:
    """Where words of an edit may come from: the person's own texts (the seed, references, what they typed),
    and texts that others wrote (what was pasted, the output of tools).
    """

    own: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class SteeringCheck:
    """Flags text in an edit that could steer an agent and does not come from the person's own texts."""

    def __init__(self, origins: TextOrigins) -> None:
        self._raw = "\n".join(origins.own)
        self._own = "\n\n".join(map(_read, origins.own))
        self._tokens = _tokens(self._own)
        self._places: dict[str, list[int]] = defaultdict(list)
        for at, (token, _, _) in enumerate(self._tokens):
            self._places[token].append(at)
        ends = (_words(part) for cut in (_SENTENCE, _LINE) for part in cut.split(self._own))
        self._sentences = "\n".join(map(_spaced, ends)) + "\n"
        self._foreign = [_spaced(_words(_read(text))) for text in origins.foreign]

    def flags(self, added: str) -> tuple[SteeringFlag, ...]:
        """Every flag of an added text, the gravest first; what lies inside of another flag's words is not
        said twice.
        """
        text = _read(added)
        flags: list[SteeringFlag] = []
        flagged: list[tuple[int, int]] = []
        own: list[tuple[int, int]] = []
        for reason, start, end, compared in orders(text):
            if _is_inside(start, end, flagged) or _is_inside(start, end, own):
                continue
            if self._is_own(text, start, end, compared):
                own += [(start, end)] if compared in ("command", "link", "text") else []
            else:
                flagged.append((start, end))
                flags.append(_flag(reason, text[start:end]))
        flags += self._invisible(added)
        flags += self._copied(text, flagged)
        return tuple(dict.fromkeys(flags))

    def flags_by_part(self, parts: Mapping[Part, str], whole: str) -> dict[Part, tuple[SteeringFlag, ...]]:
        """The flags of each part of an added text; what only the whole of it shows, such as an order that was
        cut in two, is reported for every part that holds words of it.
        """
        by_part = {part: self.flags(text) for part, text in parts.items()}
        known = [flag.quoted for flags in by_part.values() for flag in flags]
        for flag in self.flags(whole):
            if flag.reason.endswith(_UNSEEN) or any(flag.quoted in quoted for quoted in known):
                continue
            plain = {part: " ".join(_read(text).split()) for part, text in parts.items() if text.strip()}
            meant = [part for part, text in plain.items() if _shares(text, flag.quoted)]
            for part in meant or plain:
                by_part[part] += (flag,)
        return by_part

    def _is_own(self, text: str, start: int, end: int, compared: Compared) -> bool:
        unit = text[start:end]
        if compared == "text":
            return unit in self._own
        if compared == "link":
            literal, whole = re.escape(unit.rstrip("/")), r"|/\w" if "/" in unit else ""
            return bool(re.search(rf"(?<![\w.-]){literal}/?(?![\w@-]|\.\w{whole})", self._own))
        if compared == "sentence":
            return f"{_spaced(_words(_SENTENCE.split(text[start:])[0]))}\n" in self._sentences
        wanted = [token for token, _, _ in _tokens(unit)]
        if not wanted:
            return True
        denied = is_denied(text, start)
        for at in self._places.get(wanted[0], ()):
            if [token for token, _, _ in self._tokens[at : at + len(wanted)]] != wanted:
                continue
            begins, ends = self._tokens[at][1], self._tokens[at + len(wanted) - 1][2]
            if not denied and is_denied(self._own, begins):
                continue
            if compared == "words" or not _GOES_ON.match(self._own, ends):
                return True
        return False

    def _invisible(self, added: str) -> Iterator[SteeringFlag]:
        hidden = [char for char in added if _is_invisible(char) and char not in self._raw]
        if hidden:
            names = dict.fromkeys(unicodedata.name(char, f"U+{ord(char):04X}") for char in hidden)
            yield _flag(f"{len(hidden)} {_UNSEEN}", ", ".join(names))
        own = set(_DOTTED.findall(self._raw))
        for word in dict.fromkeys(_DOTTED.findall(_visible(added))):
            scripts = {unicodedata.name(char, "").split(" ")[0] for char in word if char.isalpha()}
            is_mixed = "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK"})
            if is_mixed and word not in own and (word.isalnum() or re.search(HOST, _read(word))):
                yield _flag("letters of another alphabet that look like Latin ones", word)

    def _copied(self, text: str, flagged: list[tuple[int, int]]) -> Iterator[SteeringFlag]:
        """Passages of foreign texts that are in none of the person's own."""
        words = list(_WORD.finditer(text))
        own, plain = self._sentences.replace("\n", ""), [match[0].casefold() for match in words]
        end = 0
        for at in range(len(words) - RUN + 1):
            run = _spaced(plain[at : at + RUN])
            if at < end or run in own or not any(run in foreign for foreign in self._foreign):
                continue
            end = at + RUN
            while end < len(words) and any(
                _spaced(plain[at : end + 1]) in foreign for foreign in self._foreign
            ):
                end += 1
            if not _is_inside(words[at].start(), words[end - 1].end(), flagged):
                copied = text[words[at].start() : words[end - 1].end()]
                yield _flag("words out of pasted text or a tool's output", copied)


_PAIRS = (
    "аa еe іi јj кk оo рp сc тt уy хx ѕs һh ԁd ԛq ԝw ӏl гr αa εe ιi κk νv οo ρp τt υu χx γy АA ВB ЕE КK МM"
    " НH ОO РP СC ТT УY ХX ЅS ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX"
)
_LOOKALIKES = {ord(pair[0]): pair[1] for pair in _PAIRS.split()}
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"\w+(?:[.-]\w+)*\.[a-z]{2,}|\w+")
_SENTENCE = re.compile(r"(?<=[^\s][.!?;])\s+|\n\s*\n|\n(?=\s*(?:[-*+#>|]\s|\d+[.)]\s|```|~~~))|```\w*")
_LINE = re.compile(r"\n")
_GOES_ON = re.compile(r"[ \t]+(?:\||--?\w)")
"""A command that has more flags, or hands what it writes to another."""
_TOKEN = re.compile(r"&&|\|\|?|;|[^\s`\"'(){}\[\]|;]+")


def _read(text: str) -> str:
    """A text as an agent may understand it, whatever tricks its spelling has."""
    text = html.unescape(unicodedata.normalize("NFKC", _visible(text))).translate(_LOOKALIKES)
    for pattern, plain in _TRICKS:
        text = pattern.sub(plain, text)
    return text


_TRICKS = (
    (re.compile(r"\\\r?\n"), ""),
    (re.compile(r"(?<=\w)(?:''|\"\"|\\(?=[a-z]{2}))(?=\w)"), ""),
    (re.compile(r"\$\{?IFS\}?"), " "),
    (re.compile(r"\s?[\[(](?:\.|dot)[\])]\s?", re.IGNORECASE), "."),
    (re.compile(r"\bhxxp", re.IGNORECASE), "http"),
)


def _visible(text: str) -> str:
    return "".join(char for char in text if not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    code = ord(char)
    return (
        (unicodedata.category(char) in ("Cc", "Cf", "Co", "Zl", "Zp") and char not in "\n\r\t")
        or code in (0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0)
        or 0xE0100 <= code <= 0xE01EF
    )


def _tokens(text: str) -> list[tuple[str, int, int]]:
    """The parts of a command with their places; quotes and the punctuation around them do not matter, nor
    case in plain words.
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        bare = match[0].rstrip(".,:!?") or match[0]
        tokens.append((bare.casefold() if bare.isalpha() else bare, match.start(), match.end()))
    return tokens


def _shares(text: str, quoted: str) -> bool:
    """Whether a text holds the quoted words, lies inside of them, or ends or begins with a part of them."""
    words = quoted.split()
    cuts = ((" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words)))
    at_edge = any(text.endswith(first) or text.startswith(last) for first, last in cuts)
    return quoted in text or text in quoted or at_edge


def _is_inside(start: int, end: int, spans: list[tuple[int, int]]) -> bool:
    return any(first <= start and end <= last for first, last in spans)


def _words(text: str) -> list[str]:
    words = [word.casefold() for word in _WORD.findall(text)]
    while words and words[-1] in ("please", "thanks"):
        words.pop()
    return words


def _spaced(words: list[str]) -> str:
    return f" {' '.join(words)} "


def _flag(reason: str, quoted: str) -> SteeringFlag:
    quoted = " ".join(quoted.split())
    if len(quoted) > 2 * _EDGE:  # the end of a command is as grave as its beginning
        quoted = f"{quoted[:_EDGE]} ... {quoted[-_EDGE:]}"
    return SteeringFlag(reason=reason, quoted=quoted)
