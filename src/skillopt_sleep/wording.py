"""The wording of requests: what a person typed and what was pasted, their form without inputs, and kinds of
requests that are alike, found without a model.
"""

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
_PASTED = re.compile(
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
    marked = [bool(_PASTED.search(line)) for line in lines]
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
    joined = " ".join("\0".join(inputs).casefold().split())
    digest = [f"#{hashlib.sha256(joined.encode('utf-8', 'replace')).hexdigest()[:8]}"] if joined else []
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
    """Jaccard similarity: the number of shared elements divided by the number of all; 0 if none is shared."""
    both = len(one & other)
    return Fraction(both, len(one) + len(other) - both) if both else Fraction(0)


def kinds(forms: Sequence[str]) -> list[int]:
    """For each normal form the number of its kind. The same forms in any order fall into the same kinds.

    Kinds are joined by opening first. The rest are compared with one leader a kind, found over their rarest
    features, which finds every leader that is alike enough (prefix filtering) without comparing all with all.
    """
    distinct = sorted(set(forms))
    by_form = {form: features(form) for form in distinct}
    spread = Counter(feature for found in by_form.values() for feature in found)
    home = {form: form for form in distinct}
    leaders: dict[str, str] = {}
    index: dict[str, list[str]] = defaultdict(list)
    for form in distinct:
        begins = opening(form)
        leader = leaders.get(begins) if begins else None
        rare = sorted(by_form[form], key=lambda feature: (spread[feature], feature))
        # A pair that is alike enough has a feature in common among these.
        rare = rare[: len(rare) - -(-len(rare) * ALIKE.numerator // ALIKE.denominator) + 1] if rare else []
        if leader is None:
            near = dict.fromkeys(leader for feature in rare for leader in index.get(feature, ()))
            best = max(
                list(near)[:_MOST_COMPARED],
                key=lambda leader: (alike(by_form[form], by_form[leader]), leader),
                default=None,
            )
            leader = best if best is not None and alike(by_form[form], by_form[best]) >= ALIKE else None
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


_CITED = re.compile(
    r"^[ \t]*>[^\n]*$|\"[^\"\n]{40,}\"|“[^”\n]{40,}”|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL
)
_INTRODUCED = re.compile(
    r"(?:\b(?-i:[A-Z]{3,}(?:[ -][A-Z]{3,})+)|\b(?:says?|said|reads?|output|message|error|note|log|file|readme"
    r"|doc\w*|text|this|following|result|page|ticket|issue|comment|mail|diff|from \w+))\s*:(?!/)",
    re.IGNORECASE,
)
_TYPED_LINE = 400
"""Characters of a line that a person types; a longer one was written elsewhere."""


def own_words(text: str) -> tuple[str, str]:
    """The words of a turn that the person surely typed, and the rest of it."""
    words, material = pasted(text)
    foreign = [material, *_CITED.findall(words)]
    typed: list[str] = []
    is_introduced = False
    for line in _CITED.sub("\n", words).splitlines():
        found = _INTRODUCED.search(line)
        if is_introduced or _PASTED.match(line) or len(line) > _TYPED_LINE:
            foreign.append(line)
        elif found is not None:
            typed.append(line[: found.start()])
            foreign.append(line[found.start() :])
            is_introduced = True
        else:
            typed.append(line)
            is_introduced = line.rstrip().endswith(":")
    return "\n".join(typed), "\n".join(filter(None, foreign))
