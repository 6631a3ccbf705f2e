"""The page Edits of a run: every proposed edit, how it ended and why, and the gate's numbers for the step it
belongs to.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from nicegui import ui

from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import Markup, block, joined, tag
from skillopt.dashboard._page import Page, Visit
from skillopt.runs.reader import RunReader
from skillopt.runs.values import EditFact, SkillChange
from skillopt.runs.words import outcome, score

SIZE = 20
ALL = "all"
LONGEST_STEPS = 500


class _Edits:
    """The list of one visit."""

    def __init__(self, visit: Visit) -> None:
        self.decided = -1
        self.changes: dict[str, SkillChange] = {}
        self.wanted = visit.query.get("step", ALL)
        with w.section("Edits", hidden_title=True):
            with ui.element("div").classes("so-row"):
                self.state = ui.select({ALL: "all"}, label="State", value=ALL, on_change=self.again).props(
                    "outlined dense options-dense"
                )
                self.step = ui.select({ALL: "all"}, label="Step", value=ALL, on_change=self.again).props(
                    "outlined dense options-dense"
                )
                self.words = ui.input("Words in the edit", on_change=self.again).props(
                    "outlined dense clearable"
                )
            self.gate = ui.element("div")
            self.list = block(joined([]), "ol").classes("so-rules")
            w.named(self.list, "Edits, the newest step first")
            self.pages = live.Pages(SIZE, self.draw, "edits")
            self.empty = w.empty("No edit was proposed yet: edits appear here when a step has ended.")

    def show(self, watcher: RunReader) -> None:
        """Take in steps that were closed since."""
        facts = watcher.facts()
        if facts is None or watcher.decided == self.decided:
            return
        self.decided = watcher.decided
        if len(facts.changes) == len(self.changes) and self.changes:
            return
        self.changes = {change.short: change for change in facts.changes}
        counted = Counter(edit.state for change in facts.changes for edit in change.edits)
        states = {
            ALL: f"all ({counted.total():,})",
            **{state: f"{state} ({count:,})" for state, count in counted.most_common()},
        }
        self.state.set_options(states, value=self.state.value if self.state.value in states else ALL)
        latest = list(reversed(facts.changes))[:LONGEST_STEPS]
        steps = {
            ALL: "all",
            **{change.short: f"{change.name} · {outcome(change.action)}" for change in latest},
        }
        self.step.set_options(steps, value=self.wanted if self.wanted in steps else ALL)
        self.draw()

    def again(self) -> None:
        """Another choice begins at its first page."""
        self.wanted = str(self.step.value)
        self.pages.at = 0
        self.draw()

    def draw(self) -> None:
        """The part of the list that was asked for."""
        found = list(self._wanted())
        part = found[self.pages.part(len(found))]
        self.empty.set_visibility(not any(change.edits for change in self.changes.values()))
        self.list.set_content(joined(_item(change, edit) for change, edit in part))
        self.gate.clear()
        change = self.changes.get(str(self.step.value))
        if change is not None:
            with self.gate:
                _numbers(change)

    def _wanted(self) -> Iterator[tuple[SkillChange, EditFact]]:
        words = (self.words.value or "").lower().split()
        for change in reversed(self.changes.values()):
            if self.step.value not in (ALL, change.short):
                continue
            for edit in change.edits:
                text = f"{edit.op} {edit.target} {edit.content} {edit.reason}".lower()
                if self.state.value in (ALL, edit.state) and all(word in text for word in words):
                    yield change, edit


def _numbers(change: SkillChange) -> None:
    """The verdict on a step in figures."""
    reached = score(change.candidate) if change.bound is None else f"at most {change.bound:.3f}"
    w.facts(
        [
            ("verdict", outcome(change.action)),
            ("why", change.why),
            ("compared with", score(change.incumbent)),
            ("candidate", reached),
            ("rows read", f"{change.rows_used:,} of {change.rows_total:,}"),
            ("limit", "none" if change.limit is None else str(change.limit)),
            (
                "decided by",
                (
                    f"{change.decided_by or 'nothing was measured'} ({change.policy})"
                    if change.policy
                    else "nothing was measured"
                ),
            ),
            ("verified", "yes" if change.verified else "no: fewer than 5 val tasks"),
        ]
    )
    for one in change.candidates[1:]:
        w.paragraph(
            f"A part of it was tried alone: {outcome(one.action)}, {one.why} ({one.rows:,} rows).", soft=True
        )


def _item(change: SkillChange, edit: EditFact) -> Markup:
    bound = f"at most {change.bound:.3f}" if change.bound is not None else score(change.candidate)
    gate = (
        f"{outcome(change.action)}: {bound} against {score(change.incumbent)} on {change.rows_used:,} of"
        f" {change.rows_total:,} rows"
    )
    pairs = [
        ("state", edit.state + (f", {edit.reason}" if edit.reason else "")),
        ("gate", gate if change.rows_total else f"{outcome(change.action)}: {change.why}"),
        ("id", edit.id),
        *([("target", edit.target)] if edit.target else []),
        ("content", edit.content or "nothing"),
        *(
            (str(key).replace("_", " "), item if isinstance(item, str) else json.dumps(item))
            for key, item in edit.evidence.items()
        ),
    ]
    body = tag("dl", joined(joined([tag("dt", name), tag("dd", text)]) for name, text in pairs))
    tone = live.TONES.get(edit.state, "plain")
    first = " ".join((edit.content or edit.target or "nothing").split())
    head = [
        tag("span", edit.state, cls=f"so-chip so-{tone}"),
        tag("span", f" {edit.op} ", cls="so-soft"),
        tag("span", first if len(first) <= 160 else f"{first[:157]}...", cls="so-text"),
    ]
    # An edit that was applied is in the candidate; whether that was taken is the gate's word.
    step = tag("div", tag("strong", change.name), tag("span", f" {outcome(change.action)}", cls="so-soft"))
    return tag("li", step, tag("details", tag("summary", *head), tag("div", body)))


async def build(visit: Visit) -> None:
    """Make the page."""
    edits = _Edits(visit)
    await live.watch(visit.run.folder, edits.show)


PLUGIN = Page(path="/run/{run}/edits", title="Edits", place=20, build=build, icon="edit_note")
