"""The page Skill of a run: every version, what changed between two of them, and where each line
comes from.
"""

from __future__ import annotations

from nicegui import ui

from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import block
from skillopt.dashboard._page import Page, Visit
from skillopt.dashboard._text import rules, side_by_side
from skillopt.runs.provenance import Provenance, SkillVersion, provenance, skill_versions
from skillopt.runs.reader import RunReader
from skillopt.runs.values import Facts
from skillopt.runs.words import outcome, score
from skillopt.skill.diff import unified

BASE = "base"
MOST_REJECTED = 200
"""Of candidates that were not taken the latest so many can be chosen."""
_VIEWS = {"inline": "Inline", "sides": "Side by side", "text": "Whole text"}


class _Skill:
    """The versions of one visit."""

    def __init__(self, visit: Visit) -> None:
        self.decided = -1
        self.facts: Facts | None = None
        self.versions: dict[str, SkillVersion] = {}
        self.wanted = visit.query.get("version", "")
        self.empty = w.empty("Nothing was measured yet: the seed appears here when the baseline is in.")
        with ui.element("div").classes("so-main so-bare") as self.all:
            with w.section("What changed"):
                with ui.element("div").classes("so-grid"):
                    self.version = ui.select({}, label="Version", on_change=self.draw).props(
                        "outlined dense options-dense"
                    )
                    self.against = ui.select({}, label="Compared with", on_change=self.draw).props(
                        "outlined dense options-dense"
                    )
                self.view = ui.radio(_VIEWS, value="inline", on_change=self.draw).props("inline dense")
                w.named(self.view, "How the text is shown")
                self.said = ui.label("").props('role="status"')
                self.place = ui.element("div")
            with w.section("Where each line comes from"):
                w.paragraph(
                    "The failures of a line are the training tasks that the analysts behind its edit had"
                    " before them; fixed and broke are val tasks, and belong to all edits of that step"
                    " together.",
                    soft=True,
                )
                self.rules = block(rules(provenance_of(None, "")), "ol").classes("so-rules")

    def show(self, watcher: RunReader) -> None:
        """Take in new versions; what is being read stays."""
        facts = watcher.facts()
        self.empty.set_visibility(facts is None or not facts.versions)
        self.all.set_visibility(facts is not None and bool(facts.versions))
        if facts is None or watcher.decided == self.decided:
            return
        self.decided, self.facts = watcher.decided, facts
        found = skill_versions(facts)
        if [one.short for one in found] == list(self.versions):
            return
        self.versions = {one.short: one for one in found}
        taken = [one.short for one in found if one.is_taken]
        rejected = [one.short for one in found if not one.is_taken][-MOST_REJECTED:]
        offered = {
            short: _named(one)
            for short, one in reversed(self.versions.items())
            if short in taken or short in rejected
        }
        chosen = self.version.value or (self.wanted if self.wanted in offered else taken[-1])
        self.against.set_options(
            {BASE: "the skill it was made from", **offered}, value=self.against.value or BASE
        )
        self.version.set_options(offered, value=chosen)
        self.draw()

    def draw(self) -> None:
        """The chosen version in the chosen way."""
        if self.facts is None or self.version.value not in self.versions:
            return
        one = self.versions[self.version.value]
        other = self.versions.get(self.against.value)
        before, name = (one.base, "before") if other is None else (other.text, other.name)
        self.place.clear()
        with self.place:
            self._text(one, before, name)
        self.rules.set_content(rules(provenance_of(self.facts, one.short)))

    def _text(self, one: SkillVersion, before: str, name: str) -> None:
        self.said.text = (
            f"{one.name}: {'' if one.short == 'seed' else outcome(one.action) + ', '}val {score(one.score)}"
        )
        if self.view.value == "text":
            w.verbatim(one.text or "The log does not hold this text.", f"The skill of {one.name}")
        elif before == one.text:
            w.paragraph(
                (
                    f"{one.name} reads the same as {name}."
                    if one.short != "seed"
                    else "This is the skill the run began with."
                ),
                soft=True,
            )
            w.verbatim(one.text, f"The skill of {one.name}")
        elif self.view.value == "sides":
            shown = w.named(
                block(side_by_side(before, one.text)), f"{name} on the left, {one.name} on the right"
            )
            shown.classes("so-sides").props('tabindex="0" role="region"')
        else:
            w.diff(unified(before, one.text, name, one.name), f"Difference between {name} and {one.name}")


def provenance_of(facts: Facts | None, short: str) -> Provenance:
    """Where the lines of a version come from; nothing before there is one."""
    return Provenance(lines=()) if facts is None else provenance(facts, short)


def _named(one: SkillVersion) -> str:
    if one.short == "seed":
        return f"the seed · val {score(one.score)}"
    return f"{one.name} · {outcome(one.action)} · val {score(one.score)}{' · best' if one.is_best else ''}"


async def build(visit: Visit) -> None:
    """Make the page."""
    skill = _Skill(visit)
    await live.watch(visit.run.folder, skill.show)


PLUGIN = Page(path="/run/{run}/skill", title="Skill", place=10, build=build, icon="difference")
