"""Which files a skill may have beside SKILL.md, and which of them may be trained."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

SKILL_FILE = "SKILL.md"
MOST_FILES = 24
"""Files beside SKILL.md that are trained."""
MOST_CHARS = 32_000
"""Characters of one such file."""
MOST_CHARS_IN_ALL = 96_000
"""Characters of all of them: every question to the optimizer shows them."""
_PATH = re.compile(r"(?:references|scripts)(?:/\w[\w.+ -]*){1,4}")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_LONGEST_PATH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableFiles:
    """Which files of a skill proposals may change; by itself only SKILL.md."""

    references: bool = False
    scripts: bool = False
    taken: frozenset[str] = frozenset()
    """Paths of the skill's folder that hold something else, which is never written."""

    def problem(self, path: object) -> str:
        """Why a proposal may not name that path; empty when it may."""
        if path == SKILL_FILE:
            return ""
        if not isinstance(path, str):
            return f"path is {type(path).__name__} {repr(path)[:60]}; it is a text"
        if not (self.references or self.scripts):
            return f"the skill is one document: only {SKILL_FILE} can be changed, not {path[:80]!r}"
        if problem := path_problem(path):
            return f"path {path[:80]!r} {problem}"
        if not (self.scripts if path.startswith("scripts/") else self.references):
            return f"{path} is not trained (skill.{path.partition('/')[0]})"
        if other := clash(path, self.taken):
            return f"{path} cannot be written: the skill has {other}, which is not trained"
        return ""


ONE_DOCUMENT = EditableFiles()


def path_problem(path: str) -> str:
    """Why no file of a skill may have that path, as the end of a sentence; empty when it may.

    What may be is plain on every system: below `references/` (Markdown) or `scripts/`, relative, visible.
    """
    if path == SKILL_FILE:
        return ""
    parts = path.split("/")
    if path != unicodedata.normalize("NFC", path) or len(path) > _LONGEST_PATH:
        return f"is no plain path of at most {_LONGEST_PATH} characters"
    if not _PATH.fullmatch(path) or any(part.endswith((".", " ")) for part in parts):
        return f"is neither {SKILL_FILE} nor a plain file below references/ or scripts/"
    if any(_RESERVED.fullmatch(part) for part in parts):
        return "holds a name that Windows keeps for devices"
    if parts[0] == "references" and not path.endswith(".md"):
        return "must end in .md, as every reference does"
    return ""


def clash(path: str, others: Iterable[str]) -> str:
    """Which of the other paths cannot lie beside that one on every system: another spelling of it, or one of
    the two would be a folder of the other; empty when none.
    """
    folded = path.casefold()
    for other in others:
        known = other.casefold()
        if known == folded or known.startswith(f"{folded}/") or folded.startswith(f"{known}/"):
            return other
    return ""
