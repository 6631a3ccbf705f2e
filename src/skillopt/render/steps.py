"""Draws the steps of a run: verdict, candidates, edits with their evidence, and what became of the skill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from skillopt.render.markup import Markup, chip, diff, fold, joined, listed, soft, tag
from skillopt.runs.values import EditFact, SkillChange, Study
from skillopt.runs.words import SIGNS, count, outcome, score


def steps(changes: Sequence[SkillChange]) -> Markup:
    """Every change of the skill that was tried, each as a fold."""
    if not changes:
        return tag("p", "No step is closed yet.")
    return joined(map(step, changes))


def step(change: SkillChange) -> Markup:
    """One step: closed it tells the verdict, open everything behind it."""
    word = outcome(change.action)
    name = change.name[0].upper() + change.name[1:]
    shown = tag("span", word, cls=f"word {word.split()[0]}")
    head = tag("span", tag("strong", name), f" {SIGNS.get(word, '')} ", shown, f" · {change.why}")
    inside = [soft(" · ".join(f"{label}: {figure}" for label, figure in _figures(change) if figure))]
    if change.text:
        inside += [tag("h3", "Guidance"), tag("pre", change.text)]
    if len(change.candidates) > 1:
        inside += [tag("h3", "Candidates of this step"), _candidates(change)]
    if change.edits:
        inside.append(edits(change.edits))
    if change.studies:
        inside.append(fold("What the analysts studied", tag("ul", *map(_study, change.studies), cls="edits")))
    dropped = [f"{one.name}: {one.dropped}" for one in change.studies if one.dropped is not None]
    lost = [f"{task}: {kind}, {detail}" for task, kind, detail in change.invalid]
    for title, lines in (
        ("Reflections that came to nothing", dropped),
        ("Notes for the appendix", change.notes),
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


def _figures(change: SkillChange) -> Iterator[tuple[str, str]]:
    yield "epoch", str(change.epoch)
    if change.at == change.step:
        yield "train rollouts", f"{score(change.train)} over {change.train_rows} rows"
    yield (
        "candidate on val",
        score(change.candidate) if change.bound is None else f"at most {score(change.bound)}",
    )
    yield "compared with", "" if change.incumbent is None else score(change.incumbent)
    yield "val rows read", f"{change.rows_used:,} of {change.rows_total:,}" if change.rows_total else ""
    yield "current skill after it", score(change.score)
    yield "most edits", "" if change.limit is None else str(change.limit)
    yield "decided by", f"{change.decided_by} ({change.policy})" if change.policy else ""
    yield "verified", "" if change.verified else "no: too few val tasks decided"


def _candidates(change: SkillChange) -> Markup:
    """What the step tried, side by side; the bundle of all edits is first."""
    boxes = []
    for place, one in enumerate(change.candidates):
        word = outcome(one.action)
        name = f"candidate {one.id}" if place else "all edits together"
        size = soft(f"{count(len(one.edits), 'edit')}, {one.rows:,} val rows")
        boxes.append(tag("div", tag("strong", name), chip(word), tag("p", one.why), size))
    return tag("div", *boxes, cls="sides")


def edits(found: Sequence[EditFact]) -> Markup:
    """Applied edits first; those that were merged into others are folded away."""
    counted = Counter(edit.state for edit in found)
    states = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counted.items())
    shown = sorted((one for one in found if one.state != "merged"), key=lambda one: one.state != "applied")
    merged = [one for one in found if one.state == "merged"]
    parts = [tag("h3", f"Edits: {states}")]
    if shown:
        parts.append(tag("ul", *map(edit, shown), cls="edits"))
    if merged:
        parts.append(fold(f"Merged into others: {len(merged)}", tag("ul", *map(edit, merged), cls="edits")))
    return joined(parts)


def edit(one: EditFact) -> Markup:
    """One proposed edit, how it ended and why, and what spoke for it."""
    said = " · ".join(
        filter(None, [f": {one.reason}" if one.reason else "", one.op.replace("_", " ") if one.op else ""])
    )
    goes, lead = ("same", "after") if one.op == "insert_after" else ("removed", "old")
    texts = [
        joined([tag("span", word, cls="file"), tag("span", text, cls=kind)])
        for kind, word, text in ((goes, lead, one.target), ("added", "new", one.content))
        if text
    ]
    evidence = [f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in one.evidence.items()]
    return tag(
        "li",
        tag("p", chip(one.state.replace("_", " ")), f" {said}"),
        tag("pre", *texts) if texts else "",
        soft(" · ".join([*evidence, one.id])),
    )


def _study(study: Study) -> Markup:
    ended = "came to nothing" if study.dropped is not None else f"{study.edits} edits"
    patterns = listed(study.patterns) if study.patterns else ""
    head = tag("p", tag("strong", study.name), f" · {ended}")
    return tag("li", head, patterns, soft(", ".join(study.tasks)))


def _plain(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
