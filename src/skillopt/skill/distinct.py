"""No line of a skill comes twice: which lines say the same, and edits without what the skill already says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Outcome, apply

MARKS = re.compile(r"^\s*(?:[-*+>#](?!\d)|\d+[.)](?!\d))*\s*", re.MULTILINE)
"""What makes a line an item, a quotation or a heading; -5 and 3.5 are numbers."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_FENCES = ("```", "~~~")
_RULE = re.compile(r"\|[\s|:-]+")
"""The line between a table's header and its rows."""
_AROUND = ".,;:!?\"'`*_"
"""Marks around a word that say nothing; others do, as in =SUM(A1:A9)."""
_SHORT = 12
"""Letters of a line that may come again: a name, a label."""
_FEWEST = 2
"""Words that two lines must share to count as repeating each other."""
_FILLER = re.compile(
    "a|an|the|this|that|these|its|it|you|your|please|always|must|should|shall|be|is|are|been|being|to|of|and"
    "|also|do|does|make|sure|given|give|write|use|just|for|as"
)
"""Words that change nothing where all others are the same; a test holds what may not be among them."""
_ONE_WORD = {"never": "not", "don't": "not", "each": "every", "all": "every", "whole": "entire"}


def distinct(patch: Sequence[Edit], skill: Document) -> tuple[list[Edit], list[Outcome]]:
    """The edits without lines that the skill, or an edit beside them, says already; and those that end as
    duplicates, as nothing else was in them or they would make a line come twice, as by replacing a word.

    A line that other edits take away may be added elsewhere. Lines of code may repeat, and so may headings,
    short lines, and items or rows that stand in different lists or tables.
    """
    chosen, ended, result = dict[int, Edit](), list[Outcome](), skill

    def with_edit(at: int, edit: Edit) -> Document:
        edits = chosen | {at: edit}
        return apply([edits[index] for index in sorted(edits)], skill).document

    for at, edit in sorted(enumerate(patch), key=lambda one: one[1].adds_prose):
        kept, most = edit, repeats(result)
        if edit.adds_prose and repeats(with_edit(at, edit)) > most:
            lines = list[str]()
            for line in edit.content.splitlines():
                tried = replace(edit, content="\n".join([*lines, line]))
                if repeats(with_edit(at, tried)) <= most:
                    lines.append(line)
            kept = replace(edit, content="\n".join(lines).strip("\n"))
        is_old = edit.adds_prose and _says_nothing(kept, edit, result)
        if is_old or repeats(after := with_edit(at, kept)) > most:
            why = "the skill, or another edit beside it, already has its lines"
            ended.append(Outcome(edit=edit, state="duplicate", reason=why))
        else:
            chosen[at], result = kept, after
    return [chosen[index] for index in sorted(chosen)], ended


def repeats(skill: Document) -> int:
    """How many lines of a skill say what another says."""
    lists = defaultdict[str, list[str]](list)
    for path, text in {"SKILL.md": skill.body, **skill.files}.items():
        for words, within in _compared(text) if path.endswith(".md") else ():
            lists[words].append(within)
    return sum(len(places) - max(1, len(set(places) - {""})) for places in lists.values())


def alike(line: str, other: str) -> bool:
    """Whether two lines have the same words (also numbers, names, negations), but for fillers and endings."""
    words = gist(line)
    return len(words) >= _FEWEST and words == gist(other)


def gist(text: str) -> list[str]:
    """The words of a line that tell it from others, without their endings."""
    words = (word.strip("()") for word in plain(text).split())
    return [_stem(_ONE_WORD.get(word, word)) for word in words if word and not _FILLER.fullmatch(word)]


def plain(text: str) -> str:
    """A text without what makes no other words: case, blanks, marks around words, list marks."""
    words = (word.strip(_AROUND) for word in MARKS.sub("", text).casefold().split())
    return " ".join(word for word in words if word)


def _compared(text: str) -> Iterator[tuple[str, str]]:
    """The words of each line that may not come again, and the list or table within which they may not: a list
    is known by the line with a colon before it, a table by its header.
    """
    lead, depth, header, row = "", -1, "", ""
    for line, in_code in _lines(text):
        stripped, indent = line.strip(), len(line) - len(line.lstrip())
        is_item = _ITEM.match(line) is not None
        if in_code or not stripped:
            continue
        if stripped.startswith("|"):
            if _RULE.fullmatch(stripped):
                header = row
            elif header:
                yield stripped, header
            row = stripped
            continue
        header = row = ""
        if stripped.endswith(":"):
            lead, depth = stripped, indent if is_item else -1
        elif not stripped.startswith("#"):
            lead = lead if is_item and indent > depth else ""
            words = plain(line)
            if len(words) >= _SHORT:
                yield " ".join(rule if len(rule := gist(line)) >= _FEWEST else [words]), lead


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    in_code = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(_FENCES)
        in_code ^= fence
        yield line, in_code or fence


def _says_nothing(kept: Edit, proposed: Edit, skill: Document) -> bool:
    """Whether what is left of an edit is in the skill as it stands, but for headings of what is gone."""
    has_code = any(fence in kept.content for fence in _FENCES)
    known = {line.strip() for line, in_code in _lines(skill.whole) if has_code or not in_code}
    left = [line for line in map(str.strip, kept.content.splitlines()) if line and line not in known]
    return all(kept != proposed and (line.startswith("#") or line.endswith(":")) for line in left)


def _stem(word: str) -> str:
    """Without the ending of a plural or a participle; what holds a digit or a sign stays as it is."""
    if not word.isalpha() or len(word) < 5:
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e")
