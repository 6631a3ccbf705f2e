"""Decides how a skill's text divides: frontmatter, regions between marker lines, code fences, and the rest.

A fence line is a line whose first non-blank characters are three or more backticks or tildes and which opens
or closes a block; a block that is never closed has no fence lines. A marker counts only alone on its line and
outside a code fence: an example of a marker in a fenced block is text. A fence that stays open up to a marker
hides nothing, so that a region written after it is found again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt.errors import SkillError

RegionName = Literal["slow_update", "appendix"]
REGION_NAMES: tuple[RegionName, ...] = get_args(RegionName)
BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Offsets of one region; `start` and `end` take in the marker lines, newlines included."""

    name: RegionName
    start: int
    inner_start: int
    inner_end: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceLine:
    """Offsets of a line that opens or closes a code block, its newline included."""

    start: int
    end: int
    opens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything stands; `unclosed` is the offset of a fence line that nothing closes, or None."""

    body_start: int
    regions: tuple[Region, ...]
    fences: tuple[FenceLine, ...]
    unclosed: int | None


def marker(name: RegionName, side: Literal["START", "END"]) -> str:
    """The marker line of a region, without its newline."""
    return f"<!-- {name.upper()}_{side} -->"


def holds_marker(text: str) -> bool:
    """True when a marker stands anywhere in the text, also inside a line or carelessly spelled."""
    return _ANY_MARKER.search(text) is not None


def frontmatter_end(text: str) -> int:
    """Offset behind the closing `---` line of the frontmatter and its byte order mark; 0 where none."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    # No region lies in frontmatter: a thematic break before a region and one inside it are two.
    return closing.end() if closing and closing["marker"] is None else 0


def scan(text: str) -> Layout:
    """Divide a text; raise `SkillError` naming the line when its markers do not pair up."""
    body_start = frontmatter_end(text)
    lines = [_Line(match) for match in _LINE.finditer(text, body_start)]
    fences: list[FenceLine] = []
    regions: list[Region] = []
    opened: _Line | None = None
    unclosed: int | None = None
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.region is not None:
            if opened is not None and (closing := _end_of_example(lines, index, opened)) is not None:
                index = closing
                continue
            if opened is not None:
                unclosed, opened = opened.start, None
            regions.append(_region(text, lines, index, regions))
            # Fences inside a region are the region's own business.
            index = _next_marker(lines, index)
        elif opened is None:
            opened = line if line.opens else None
        elif line.closes(opened):
            fences.append(FenceLine(start=opened.start, end=opened.end, opens=True))
            fences.append(FenceLine(start=line.start, end=line.end, opens=False))
            opened = None
        index += 1
    if opened is not None:
        unclosed = opened.start
    return Layout(body_start=body_start, regions=tuple(regions), fences=tuple(fences), unclosed=unclosed)


def leaves_fence_open(text: str) -> bool:
    """True when the text by itself holds an odd number of fence lines."""
    opened: _Line | None = None
    for match in _LINE.finditer(text):
        line = _Line(match)
        if opened is None:
            opened = line if line.opens else None
        elif line.closes(opened):
            opened = None
    return opened is not None


_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(
    r"^(?:---|[ \t]*(?P<marker><!-- (?:SLOW_UPDATE|APPENDIX)_(?:START|END) -->))[ \t]*\r?(?:\n|\Z)",
    re.MULTILINE,
)
_ANY_MARKER = re.compile(
    r"<!--\s*(?:(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->|SKILL_FILE\b)", re.IGNORECASE
)
_LINE = re.compile(
    r"(?:^|(?<=\A\ufeff))[ \t]*(?:(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    r"|<!-- (?P<region>SLOW_UPDATE|APPENDIX)_(?P<side>START|END) -->[ \t]*\r?$)\n?",
    re.MULTILINE,
)


class _Line:
    """A line that may be a fence line or a marker."""

    __slots__ = ("_info", "_ticks", "end", "region", "start", "starts")

    def __init__(self, match: re.Match[str]) -> None:
        self.start, self.end = match.span()
        name = match["region"]
        self.region: RegionName | None = (
            None if name is None else "appendix" if name == "APPENDIX" else "slow_update"
        )
        self.starts = match["side"] == "START"
        self._ticks: str = match["fence"] or ""
        self._info: str = match["info"] or ""

    @property
    def opens(self) -> bool:
        # CommonMark: the info string of a backtick fence holds no backtick, so ```x``` is inline code.
        return bool(self._ticks) and not (self._ticks[0] == "`" and "`" in self._info)

    def closes(self, opened: _Line) -> bool:
        return self._ticks.startswith(opened._ticks) and not self._info.strip()


def _end_of_example(lines: Sequence[_Line], index: int, opened: _Line) -> int | None:
    """The line that closes the block `opened` opens, when the marker at `index` is only text of that block;
    None when it counts.

    It counts when nothing closes the block, and when the first closing line stands between the two markers of
    one pair: then the block was open at the end of the body and the line belongs to the region - unless the
    end marker is itself shown in a block of its own.
    """
    closing = next((i for i in range(index + 1, len(lines)) if lines[i].closes(opened)), None)
    if closing is None:
        return None
    before = next(lines[i] for i in range(closing - 1, index - 1, -1) if lines[i].region is not None)
    after = _next_marker(lines, closing)
    ends = after < len(lines) and not lines[after].starts and lines[after].region == before.region
    if not before.starts or not ends:
        return closing
    shown = any(lines[i].closes(opened) for i in range(after + 1, _next_marker(lines, after)))
    return closing if shown else None


def _next_marker(lines: Sequence[_Line], index: int) -> int:
    return next((i for i in range(index + 1, len(lines)) if lines[i].region is not None), len(lines))


def _region(text: str, lines: Sequence[_Line], index: int, earlier: Sequence[Region]) -> Region:
    line = lines[index]
    name = line.region
    assert name is not None
    if not line.starts:
        raise _malformed(text, line, f"ends a region that no {marker(name, 'START')} line starts")
    if any(region.name == name for region in earlier):
        raise _malformed(text, line, "starts the same region a second time")
    partner = _next_marker(lines, index)
    if partner == len(lines):
        raise _malformed(text, line, f"has no {marker(name, 'END')} line after it")
    following = lines[partner]
    if following.starts or following.region != name:
        within = f"stands inside the region that line {_number(text, line.start)} starts"
        raise _malformed(text, following, within)
    return Region(
        name=name, start=line.start, inner_start=line.end, inner_end=following.start, end=following.end
    )


def _malformed(text: str, line: _Line, problem: str) -> SkillError:
    written = text[line.start : line.end].strip()
    return SkillError(
        f"Line {_number(text, line.start)}: {written} {problem}. Remove the stray marker line, or restore its"
        " partner; a marker that is meant as text goes into a code fence or inside a line."
    )


def _number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
