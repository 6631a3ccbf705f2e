"""The page Versions of a run: every version that was measured, and what changed between two of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from skillopt.runs.versions import SkillVersion
from skillopt.runs.view import RunView
from skillopt.runs.words import outcome, score
from skillopt.skill.diff import unified
from skillopt_webui._forms import choice, filters
from skillopt_webui._page import Page, Parts, Visit
from skillopt_webui.render.markup import Markup, card, diff, empty, region, soft, tag, verbatim

BASE = "base"
MOST_REJECTED = 200
"""Of candidates that were not taken the latest so many can be chosen."""
_VIEWS = {"inline": "Inline", "sides": "Side by side", "text": "Whole text"}
_CONTEXT = 3


async def build(visit: Visit) -> Parts:
    """The version that the address names, the best where it names none, and the one it is compared with."""
    view = (await visit.look()).view()
    found = [] if view is None else view.measured
    if view is None or not found:
        return {"empty": empty("Nothing was measured yet: the seed appears here with the baseline.")}
    rejected = [one.short for one in found if not one.is_taken][-MOST_REJECTED:]
    versions = {one.short: one for one in reversed(found) if one.is_taken or one.short in rejected}
    best = next((one.short for one in found if view.is_best(one)), "seed")
    one = versions.get(visit.query.get("version", ""), versions[best])
    against = visit.query.get("against", "seed" if "version" not in visit.query else BASE)
    other, shown = versions.get(against), visit.query.get("view", "inline")
    offered = {short: _named(view, version) for short, version in versions.items()}
    wanted = filters(
        choice("version", "Version", offered, one.short),
        choice("against", "Compared with", {BASE: "the skill it was made from", **offered}, against),
        choice("view", "Shown", _VIEWS, shown),
    )
    before, name = (view.base_of(one), "before") if other is None else (other, other.name)
    said = soft(_named(view, one))
    return {"filter": wanted, "text": card("What changed", said, *_text(one, before.text, name, shown))}


def _named(view: RunView, one: SkillVersion) -> str:
    if one.short == "seed":
        return f"the seed · val {score(one.candidate)}"
    best = " · best" if view.is_best(one) else ""
    return f"{one.name} · {outcome(one.action)} · val {score(one.candidate)}{best}"


def _text(one: SkillVersion, before: str, name: str, shown: str) -> list[Markup]:
    if shown == "text":
        return [verbatim(one.text or "The log does not hold this text.", f"The skill of {one.name}")]
    if before == one.text:
        same = "The run began with this skill."
        if one.short != "seed":
            same = f"{one.name} reads the same as {name}."
        return [soft(same), verbatim(one.text, f"The skill of {one.name}")]
    if shown == "sides":
        label = f"{name} on the left, {one.name} on the right"
        return [region(label, *side_by_side(before, one.text), cls="columns")]
    label = f"Difference between {name} and {one.name}"
    return [diff(unified(before, one.text, name, one.name), label)]


def side_by_side(before: str, after: str) -> list[Markup]:
    """Two texts in two columns; lines have a minus or a plus, so that colour says nothing alone."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[Markup] = []
    groups = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for number, group in enumerate(groups):
        if number or group[0][1]:
            rows.append(tag("div", f"from line {group[0][3] + 1}", cls="where"))
        for kind, a0, a1, b0, b1 in group:
            left, right = old[a0:a1], new[b0:b1]
            for place in range(max(len(left), len(right))):
                rows += [_side(left, place, kind, "-"), _side(right, place, kind, "+")]
    return rows


def _side(lines: Sequence[str], place: int, kind: str, sign: str) -> Markup:
    if place >= len(lines):
        return tag("div", "")
    if kind == "equal":
        return tag("div", f"  {lines[place]}")
    return tag("div", f"{sign} {lines[place]}", cls="removed" if sign == "-" else "added")


PLUGIN = Page(path="/run/{run}/skill", title="Versions", place=10, build=build)
