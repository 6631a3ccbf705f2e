"""Decides how the text of a skill is laid out on a page: two versions side by side, and every line with its
origin.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from skillopt.dashboard._markup import Markup, joined, tag
from skillopt.runs.provenance import Edited, Origin, Provenance
from skillopt.runs.words import outcome

CONTEXT = 3
LONGEST_LIST = 24
"""Tasks that are named; of more only the number is told."""


def side_by_side(before: str, after: str) -> Markup:
    """Two texts in two columns; lines that are gone have a minus, new ones a plus, so that colour says
    nothing alone.
    """
    old, new = before.splitlines(), after.splitlines()
    groups = list(difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_grouped_opcodes(CONTEXT))
    rows: list[Markup] = []
    for number, group in enumerate(groups):
        if number or group[0][1]:
            rows.append(tag("div", f"from line {group[0][3] + 1}", cls="so-where"))
        for kind, a0, a1, b0, b1 in group:
            left, right = old[a0:a1], new[b0:b1]
            for place in range(max(len(left), len(right))):
                rows += [_side(left, place, kind, "-"), _side(right, place, kind, "+")]
    return joined(rows)


def _side(lines: Sequence[str], place: int, kind: str, sign: str) -> Markup:
    if place >= len(lines):
        return tag("div", "")
    if kind == "equal":
        return tag("div", f"  {lines[place]}")
    return tag("div", f"{sign} {lines[place]}", cls="so-removed" if sign == "-" else "so-added")


def rules(found: Provenance) -> Markup:
    """Every line that says something, with the version that brought it; what is behind it unfolds."""
    shown = []
    for line in found.lines:
        if not line.text.strip():
            continue
        origin, edit = found.origins.get(line.origin), found.edits.get(line.edit)
        text = tag("span", line.text, cls="so-text")
        if origin is None or not origin.why:
            shown.append(tag("li", tag("span", "the seed", cls="so-soft"), text))
            continue
        moved = f"fixed {len(origin.fixed)}, broke {len(origin.broke)}"
        details = tag("details", tag("summary", text), tag("div", tag("dl", joined(_behind(origin, edit)))))
        shown.append(
            tag("li", tag("div", tag("strong", origin.name), tag("div", moved, cls="so-soft")), details)
        )
    return joined(shown)


def _behind(origin: Origin, edit: Edited | None) -> Iterator[Markup]:
    yield _pair("verdict", f"{outcome(origin.action)}: {origin.why}")
    if edit is not None:
        yield _pair("edit", f"{edit.id}{f', supported by {edit.support}' if edit.support else ''}")
        if edit.rationale:
            yield _pair("rationale", edit.rationale)
        yield _pair("from successes" if edit.kind == "success" else "from failures", named(edit.tasks))
        if edit.patterns:
            yield _pair("seen in them", "; ".join(edit.patterns))
    yield _pair("fixed on val", named(origin.fixed))
    yield _pair("broke on val", named(origin.broke))


def _pair(name: str, text: str) -> Markup:
    return joined([tag("dt", name), tag("dd", text)])


def named(tasks: Sequence[str]) -> str:
    """Tasks by name, or how many there are."""
    if not tasks:
        return "none"
    more = len(tasks) - LONGEST_LIST
    return ", ".join(tasks[:LONGEST_LIST]) + (f" and {more:,} more" if more > 0 else "")
