"""The document of a skill: which files it has, what of them is protected, and what text the target gets."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skillopt.errors import SkillError, UnknownName
from skillopt.skill.layout import (
    BOM,
    REGION_NAMES,
    Layout,
    Region,
    RegionName,
    holds_marker,
    leaves_fence_open,
    marker,
    scan,
)

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


@dataclass(frozen=True, slots=True)
class Document:
    """A skill's text, kept byte for byte: newlines, a missing final newline and a byte order mark included.

    Making one checks it: markers that do not pair up, or what UTF-8 cannot hold, raise `SkillError`.
    """

    text: str
    """SKILL.md, or the only file."""
    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The other files that are trained, by path: references, and scripts where they may be."""
    layout: Layout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _is_encodable(self.whole):
            raise SkillError(
                "The skill holds half of a surrogate pair, which UTF-8 cannot store. Remove that character."
            )
        check(self.text, self.files)
        object.__setattr__(self, "layout", scan(self.text))

    @classmethod
    def of(cls, whole: str) -> Document:
        """The document that `whole` or `rendered` is the text of."""
        return cls(*unpack(whole))

    @property
    def whole(self) -> str:
        """Every file in one text, which a run keeps; of a single document its text."""
        return pack(self.text, self.files)

    @property
    def frontmatter(self) -> str:
        """The frontmatter with its delimiter lines, exactly as in the file; empty when there is none."""
        return self.text[: self.layout.body_start]

    @property
    def body(self) -> str:
        """Everything behind the frontmatter, markers included."""
        return self.text[self.layout.body_start :]

    @property
    def newline(self) -> str:
        """The line ending most lines use."""
        return newline_of(self.text)

    @property
    def protected(self) -> tuple[tuple[int, int], ...]:
        """Spans no edit may touch: frontmatter (or a lone byte order mark), regions and their markers."""
        head = self.layout.body_start or int(self.text.startswith(BOM))
        return (((0, head),) if head else ()) + tuple(
            (region.start, region.end) for region in self.layout.regions
        )

    @property
    def append_point(self) -> int:
        """Where appended text goes: the end of the body, before the first region."""
        return self.layout.regions[0].start if self.layout.regions else len(self.text)

    @property
    def rendered(self) -> str:
        """What the target gets, in one text as `whole` is."""
        return pack(self.rendered_text, self.files)

    @property
    def rendered_text(self) -> str:
        """SKILL.md as the target gets it: no marker lines, and no trace of an empty region."""
        drop: list[tuple[int, int]] = []
        for region in self.layout.regions:
            if self._inner(region):
                drop += [(region.start, region.inner_start), (region.inner_end, region.end)]
            else:
                drop.append((region.start, region.end))
        return _without_lines(self.text, drop)

    @property
    def digest(self) -> str:
        """SHA-256 of the rendered text: two documents the target cannot tell apart have the same."""
        return hashlib.sha256(self.rendered.encode()).hexdigest()

    @property
    def text_digest(self) -> str:
        """SHA-256 of the whole text, markers included: the name under which a run keeps it."""
        return hashlib.sha256(self.whole.encode()).hexdigest()

    def region(self, name: RegionName) -> str | None:
        """What stands between the markers, with LF and no blank lines around it; None without a region."""
        region = self._find(name)
        return None if region is None else self._inner(region)

    def with_region(self, name: RegionName, content: str) -> Document:
        """The same document with that region set, byte for byte the same elsewhere; blank content removes the
        region.

        An existing region is replaced where it stands. A new slow update goes to the tail, a new appendix
        before the slow update. Raises `SkillError` for what `problem_with` names.
        """
        found = self._find(name)
        content = _clean(content)
        if not content:
            return (
                self
                if found is None
                else replace(self, text=_without_lines(self.text, [(found.start, found.end)]))
            )
        if found is not None and self._inner(found) == content:
            return self
        if problem := problem_with(content):
            raise SkillError(f"The text for the {name} region {problem}.")
        text, newline = self.text, self.newline
        content = content.replace("\n", newline)
        if found is not None:
            return replace(self, text=text[: found.inner_start] + content + newline + text[found.inner_end :])
        slow = self._find("slow_update")
        before, after = (text, "") if slow is None else (text[: slow.start], text[slow.start :])
        block = f"{marker(name, 'START')}{newline}{content}{newline}{marker(name, 'END')}"
        # A document without a final newline stays one, so that removing the region gives the first text back.
        if before.lstrip(BOM) and not before.endswith("\n"):
            return replace(self, text=before + newline + block)
        return replace(self, text=before + block + newline + after)

    def _find(self, name: RegionName) -> Region | None:
        if name not in REGION_NAMES:
            raise UnknownName("region", name, REGION_NAMES)
        return next((region for region in self.layout.regions if region.name == name), None)

    def _inner(self, region: Region) -> str:
        return _clean(self.text[region.inner_start : region.inner_end])


def problem_with(content: str) -> str:
    """Why a text may not be put into a document, as the end of a sentence; empty when it may."""
    if not _is_encodable(content):
        return "holds half of a surrogate pair, which UTF-8 cannot store"
    if holds_marker(content):
        return "holds a region marker"
    if leaves_fence_open(content):
        return "holds an odd number of code-fence lines"
    return ""


def newline_of(text: str) -> str:
    """The line ending most lines of a text use."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf and crlf * 2 >= text.count("\n") else "\n"


def to_lf(text: str) -> str:
    """The text with every line ending as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(content: str) -> str:
    content = to_lf(content)
    return content.strip("\n") if content.strip() else ""


def _without_lines(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Drop whole lines; when the last line goes and had no newline, the new last line has none either."""
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces.append(text[position:start])
        position = end
    rest = text[position:]
    kept = "".join(pieces) + rest
    if position and not rest and not text.endswith("\n"):
        kept = kept.removesuffix("\n").removesuffix("\r")
    return kept


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_MARKER = re.compile(r"\n<!-- SKILL_FILE ([^\n]+) -->\n")


def pack(text: str, files: Mapping[str, str]) -> str:
    """One text of SKILL.md and the other files by path, each behind a marker line; `unpack` gives back every
    byte. A run keeps a skill, and hands it on, as this text; one document is that document, unchanged.
    """
    return text + "".join(f"\n<!-- SKILL_FILE {path} -->\n{files[path]}" for path in sorted(files))


def unpack(whole: str) -> tuple[str, dict[str, str]]:
    """SKILL.md and the other files by path."""
    text, *rest = _MARKER.split(whole)
    return text, dict(zip(rest[::2], rest[1::2], strict=True))


def as_prompt(whole: str) -> str:
    """What a target without files is shown: SKILL.md, and below it the references that it mentions."""
    text, files = unpack(whole)
    linked = [path for path in files if path.endswith(".md") and path in text]
    linked.sort(key=text.index)
    shown = [f'<file path="{path}">\n{files[path].strip()}\n</file>' for path in linked]
    return "\n\n".join([text.rstrip(), *shown]) if shown else text


def check(text: str, files: Mapping[str, str]) -> None:
    """Raise `SkillError` for files that could not be kept and given back as they are."""
    for path, content in ((SKILL_FILE, text), *files.items()):
        if _MARKER.search(f"\n{content}\n"):
            raise SkillError(
                f"{path} holds a line `<!-- SKILL_FILE ... -->`, which stands between the files of a skill."
                " Remove that line."
            )
    for path in files:
        if problem := "is SKILL.md itself" if path == SKILL_FILE else path_problem(path):
            raise SkillError(f"The file {path!r} of a skill {problem}. Rename it.")
