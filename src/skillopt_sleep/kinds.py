"""Groups requests into kinds without a model: by the same opening words, or by enough words in common."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

ALIKE = Fraction(1, 2)
"""The share of common words and pairs of words from which two requests are of one kind."""
_MOST_COMPARED = 500
_FENCED = re.compile(r"```[^\n]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]{1,200}`")
PASTED = re.compile(
    r"^(?:[+\-@<>{}\[\]|#$*]|\s{2,}\S|diff |index |def |class |import |from \w+ import|function |Traceback"
    r"|File |at \w|\d{2,4}[-:]\d|\w+(?:Error|Exception)\b|(?:select|insert|update) "
    r"|(?:error|warn(?:ing)?|info|debug|fatal|critical)\]?:)"
    r"|[{};]\s*$|\w\(.*\)|^\s*\"\w+\":",
    re.IGNORECASE,
)
"""What a line of a diff, a program, a log or JSON looks like."""
_URL = re.compile(r"\bhttps?://\S+", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w/.~@-])(?:~|\.{1,2})?/?(?:[\w.@-]+/)+[\w.@-]*|(?<![\w./-])[\w-]+\.[a-z]{1,5}(?![\w.])", re.ASCII
)
_HASH = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b")
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?<!\w)'[^'\n]{1,300}'(?!\w)")
_NUMBER = re.compile(r"\b\w*\d[\w.,]*")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NO_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")
_POLITE = (
    "please can could would you i we want need help me us hey hi hello let let's like to just kindly now ok"
    " okay"
)
_SMALL = (
    "a an the of on in at for and or with by from is are be it this that my our as so if do does should into"
    " about some your"
)
_STOP = frozenset(f"{_POLITE} {_SMALL}".split())


def pasted(text: str) -> tuple[str, str]:
    """The words of a request, and the material that was pasted with them: fenced, below a line that ends with
    a colon, or lines that look like a diff, a program, a log or JSON.
    """
    if found := _FENCED.findall(text):
        return _FENCED.sub(" code ", text), "\n".join(found)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if len(lines) < 3:
        return text, ""
    marked = [bool(PASTED.search(line)) for line in lines]
    if lines[0].rstrip().endswith(":") and not lines[0].startswith("Traceback"):
        return lines[0], "\n".join(lines[1:])
    if 2 * sum(marked) < len(lines) - 1:
        return text, ""
    first, last = marked.index(True), len(marked) - marked[::-1].index(True)
    return "\n".join([*lines[:first], *lines[last:]]), "\n".join(lines[first:last])


def folded(text: str) -> str:
    """A text by its words and marks alone, whatever their case and layout."""
    return " ".join(text.casefold().split())


def normal(text: str) -> str:
    """A request without numbers, paths, links, quotes and material, and a digest of all of these. Equal
    normal forms are the same task; another input is another task.
    """
    words, material = pasted(unicodedata.normalize("NFKC", text[:20_000]))
    inputs = [material]

    def taken(word: str) -> Callable[[re.Match[str]], str]:
        return lambda match: inputs.append(match[0].strip(".,")) or f" {word} "  # type: ignore[func-returns-value]

    for pattern, word in ((_CODE, "code"), (_URL, "link"), (_QUOTED, "quote"), (_PATH, "path")):
        words = pattern.sub(taken(word), words)
    words = _NUMBER.sub(taken("number"), _HASH.sub(taken("hash"), words.casefold()))
    said = " ".join("\0".join(inputs).casefold().split())
    digest = [f"#{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:8]}"] if said else []
    return " ".join([*words_of(words), *digest]) if words_of(words) or material else ""


def opening(form: str) -> str:
    """What a normal form asks for in two words; empty where it is too short to tell."""
    words = _content(form)
    return " ".join(words[:2]) if len(words) >= 4 else ""


def features(form: str) -> frozenset[str]:
    """The words and pairs of words by which normal forms are compared."""
    words = _content(form)
    return frozenset(words) | {f"{first} {second}" for first, second in pairwise(words)}


def alike(one: frozenset[str], other: frozenset[str]) -> Fraction:
    """The share of what both have of what either has; nothing is like nothing."""
    both = len(one & other)
    return Fraction(both, len(one) + len(other) - both) if both else Fraction(0)


def kinds(forms: Sequence[str]) -> list[int]:
    """For each normal form the number of its kind. The same forms in any order fall into the same kinds.

    Kinds are joined by opening first. The rest are compared with one leader a kind, found over their rarest
    features, which finds every leader that is alike enough (prefix filtering) without comparing all with all.
    """
    distinct = sorted(set(forms))
    told = {form: features(form) for form in distinct}
    spread = Counter(feature for found in told.values() for feature in found)
    home = {form: form for form in distinct}
    leaders: dict[str, str] = {}
    index: dict[str, list[str]] = defaultdict(list)
    for form in distinct:
        begins = opening(form)
        leader = leaders.get(begins) if begins else None
        rare = sorted(told[form], key=lambda feature: (spread[feature], feature))
        # A pair that is alike enough has a feature in common among these.
        rare = rare[: len(rare) - -(-len(rare) * ALIKE.numerator // ALIKE.denominator) + 1] if rare else []
        if leader is None:
            near = dict.fromkeys(leader for feature in rare for leader in index.get(feature, ()))
            best = max(
                list(near)[:_MOST_COMPARED],
                key=lambda leader: (alike(told[form], told[leader]), leader),
                default=None,
            )
            leader = best if best is not None and alike(told[form], told[best]) >= ALIKE else None
        if leader is None:
            leader = form
            for feature in rare:
                index[feature].append(form)
        home[form] = leader
        if begins:
            leaders.setdefault(begins, leader)
    numbers = {leader: number for number, leader in enumerate(dict.fromkeys(home[form] for form in distinct))}
    return [numbers[home[form]] for form in forms]


def _content(form: str) -> list[str]:
    return [word for word in form.split() if word not in _STOP and not word.startswith("#")]


def words_of(text: str, pattern: re.Pattern[str] = _WORD) -> list[str]:
    """Words; writing without spaces is cut into pairs of characters."""
    words: list[str] = []
    for word in pattern.findall(text):
        if _NO_SPACES.fullmatch(word):
            words += [word[place : place + 2] for place in range(len(word) - 1)]
        else:
            words.append(word)
    return words
