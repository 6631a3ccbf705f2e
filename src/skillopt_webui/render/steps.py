"""Draws the steps of a run: verdict, candidates, edits with their evidence, and what became of the skill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from skillopt.events import Minibatch
from skillopt.events.records import CandidateRecord
from skillopt.runs.versions import SkillVersion, cut, patterns_of
from skillopt.runs.words import SIGNS, count, outcome, score
from skillopt.skill.edits import REWRITE, SUGGEST, Edit, Outcome
from skillopt_webui.render.markup import Markup, card, chip, diff, fold, joined, listed, soft, tag

_WRITTEN = ("op", "type", "target", "content", "instruction", "new_skill")
"""What a proposal says itself; its other keys are what spoke for it."""


def steps_card(changes: Sequence[SkillVersion], more: str = "") -> Markup:
    """The changes of the skill as a card; `more` stands below them."""
    note = soft("Each step opens to its edits, their evidence and what it did to the skill.")
    return card("Steps", note, steps(changes), more, id="steps")


def steps(changes: Sequence[SkillVersion]) -> Markup:
    """Every change of the skill that was tried, each as a fold."""
    if not changes:
        return tag("p", "No step is closed yet.")
    return joined(map(step, changes))


def step(change: SkillVersion) -> Markup:
    """One step: closed it tells the verdict, open everything behind it."""
    word = outcome(change.action)
    name = change.name[0].upper() + change.name[1:]
    shown = tag("span", word, cls=f"word {word.split()[0]}")
    head = tag("span", tag("strong", name), f" {SIGNS.get(word, '')} ", shown, f" · {change.why}")
    inside = [soft(" · ".join(f"{label}: {figure}" for label, figure in _figures(change) if figure))]
    if change.ended is not None and (guidance := change.ended.slow_update.slow_update_content):
        inside += [tag("h3", "Guidance"), tag("pre", guidance)]
    if change.record is not None and len(change.record.candidates) > 1:
        inside += [tag("h3", "Candidates of this step"), _candidates(change.record.candidates)]
    if change.outcomes:
        inside.append(edits(change))
    if change.patches:
        inside.append(fold("What the analysts studied", tag("ul", *map(_study, change.patches), cls="edits")))
    dropped = [f"{_name(one)}: {one.dropped}" for one in change.patches if one.dropped is not None]
    notes = [note for one in change.patches for note in one.notes]
    lost = [f"{row.task} ({stage}): {row.invalid}, {cut(row.detail)}" for stage, row in change.lost]
    for title, lines in (
        ("Reflections that came to nothing", dropped),
        ("Notes for the appendix", notes),
        ("Not measurable", lost),
    ):
        if lines:
            inside += [tag("h3", title), listed(lines)]
    if change.diff:
        inside += [tag("h3", "What changed in the skill"), diff(change.diff, f"What {change.name} changed")]
    if change.tried:
        tried = diff(change.tried, f"What {change.name} would have changed")
        inside.append(fold("What the rewrite would have changed", tried))
    return fold(head, *inside, key=f"step-{change.short}", cls="step")


def _figures(change: SkillVersion) -> Iterator[tuple[str, str]]:
    verdict, record = change.judged, change.record
    bound = None if verdict is None else verdict.bound
    yield "epoch", str(change.epoch)
    if record is not None:
        yield "train rollouts", f"{score(change.train)} over {change.train_rows} rows"
    yield "candidate on val", score(change.candidate) if bound is None else f"at most {score(bound)}"
    yield "compared with", "" if change.incumbent is None else score(change.incumbent)
    if verdict is not None and verdict.rows_total:
        yield "val rows read", f"{verdict.rows_used:,} of {verdict.rows_total:,}"
    yield "current skill after it", score(change.score)
    if record is not None and record.edit_budget is not None:
        yield "most edits", str(record.edit_budget)
    if verdict is not None and verdict.policy:
        yield "decided by", f"{verdict.decided_by} ({verdict.policy})"
    yield "verified", "" if verdict is None or verdict.verified else "no: too few val tasks decided"


def _candidates(found: Sequence[CandidateRecord]) -> Markup:
    """What the step tried, side by side; the bundle of all edits is first."""
    boxes = []
    for place, one in enumerate(found):
        word = outcome(one.action)
        name = f"candidate {one.id}" if place else "all edits together"
        size = soft(f"{count(len(one.edits), 'edit')}, {one.rows:,} val rows")
        boxes.append(tag("div", tag("strong", name), chip(word), tag("p", one.why), size))
    return tag("div", *boxes, cls="sides")


def edits(change: SkillVersion) -> Markup:
    """Applied edits first; those that were merged into others are folded away."""
    found = [(change.state_of(one), one) for one in change.outcomes]
    counted = Counter(state for state, _ in found)
    states = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counted.items())
    found.sort(key=lambda one: one[0] != "applied")
    shown = [_edit(one, change) for state, one in found if state != "merged"]
    merged = [_edit(one, change) for state, one in found if state == "merged"]
    parts = [tag("h3", f"Edits: {states}")]
    if shown:
        parts.append(tag("ul", *shown, cls="edits"))
    if merged:
        parts.append(fold(f"Merged into others: {len(merged)}", tag("ul", *merged, cls="edits")))
    return joined(parts)


def _edit(one: Outcome, change: SkillVersion) -> Markup:
    """One proposed edit, how it ended and why, and what spoke for it."""
    reason, (op, target, content) = change.reason_of(one), edit_parts(one.edit)
    line = " · ".join(filter(None, [f": {reason}" if reason else "", op.replace("_", " ")]))
    goes, lead = ("same", "after") if op == "insert_after" else ("removed", "old")
    texts = [
        joined([tag("span", word, cls="file"), tag("span", text, cls=kind)])
        for kind, word, text in ((goes, lead, target), ("added", "new", content))
        if text
    ]
    other = {key: item for key, item in one.edit.as_json().items() if key not in _WRITTEN}
    evidence = [f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in other.items()]
    return tag(
        "li",
        tag("p", chip(change.state_of(one).replace("_", " ")), f" {line}"),
        tag("pre", *texts) if texts else "",
        soft(" · ".join([*evidence, one.id])),
    )


def edit_parts(edit: Edit) -> tuple[str, str, str]:
    """Operation, target and content of a proposal of any update mode, each empty where it says none."""
    op = {REWRITE: "whole skill", SUGGEST: str(edit.evidence.get("type", ""))}.get(edit.op, edit.op)
    target = "" if edit.op == "append" else edit.target
    return op, target, "" if edit.op == "delete" else edit.content


def _study(patch: Minibatch) -> Markup:
    ended = "came to nothing" if patch.dropped is not None else f"{len(patch.edits)} edits"
    patterns = patterns_of(patch)
    head = tag("p", tag("strong", _name(patch)), f" · {ended}")
    return tag("li", head, listed(patterns) if patterns else "", soft(", ".join(patch.tasks)))


def _name(patch: Minibatch) -> str:
    return f"{patch.kind} {patch.index}"


def _plain(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
