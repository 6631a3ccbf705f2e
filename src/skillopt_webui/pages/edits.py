"""The page Steps of a run: every step and every proposed edit, found by state, step and words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from skillopt.runs.versions import SkillVersion
from skillopt.runs.words import outcome
from skillopt_webui._forms import choice, field, filters, pager
from skillopt_webui._page import Page, Parts, Visit
from skillopt_webui.render.markup import card, tag
from skillopt_webui.render.steps import edit_parts, steps

SIZE = 20
LONGEST_STEPS = 500
_ALL = "all"


async def build(visit: Visit) -> Parts:
    """The steps that hold what was asked for, the newest first."""
    view = (await visit.look()).view()
    changes = [] if view is None else list(reversed(view.changes))
    counted = Counter(change.state_of(edit) for change in changes for edit in change.outcomes)
    states = {_ALL: f"all ({counted.total():,})"}
    states |= {state: f"{state.replace('_', ' ')} ({number:,})" for state, number in counted.most_common()}
    state, words = visit.query.get("state", _ALL), visit.query.get("words", "")
    step = visit.query.get("step", _ALL)
    names = {one.short: f"{one.name} · {outcome(one.action)}" for one in changes[:LONGEST_STEPS]}
    wanted = filters(
        choice("state", "State", states, state),
        choice("step", "Step", {_ALL: "all", **names}, step),
        field("words", "Words in the edit", words),
    )
    chosen = [change for change in changes if step in (_ALL, change.short)]
    if state != _ALL or words:
        found = [_with(change, state, words.lower().split()) for change in chosen]
        chosen = [change for change in found if change.outcomes]
    part, pages = pager(visit, len(chosen), SIZE, "steps")
    edits = sum(len(change.outcomes) for change in chosen)
    said = tag("p", f"{edits:,} edits in {len(chosen):,} steps.", cls="soft", role="status")
    return {"filter": wanted, "steps": card("Steps", said, steps(chosen[part]), pages)}


def _with(change: SkillVersion, state: str, words: list[str]) -> SkillVersion:
    """The step with only those of its edits that were asked for."""
    kept = []
    for one in change.outcomes:
        text = " ".join([*edit_parts(one.edit), change.reason_of(one)]).lower()
        if state in (_ALL, change.state_of(one)) and all(word in text for word in words):
            kept.append(one)
    return replace(change, outcomes=kept)


PLUGIN = Page(path="/run/{run}/edits", title="Steps", place=20, build=build)
