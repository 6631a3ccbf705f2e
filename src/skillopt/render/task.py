"""Draws one task with two skills: question, expected answer, and what the target did with each."""

from __future__ import annotations

import json
from collections.abc import Iterator

from skillopt.render.markup import Markup, chip, joined, soft, tag, verbatim
from skillopt.runs.matrix import Shown
from skillopt.runs.task_look import TaskLook, VersionLook
from skillopt.runs.words import count, shortened

LONGEST = 6000
"""Characters of one text that are shown; whole transcripts lie in the run."""


def task_card(look: TaskLook) -> Markup:
    """The task as a whole."""
    expected = look.expected
    shown = expected if isinstance(expected, str) else json.dumps(expected, ensure_ascii=False, default=str)
    parts = [tag("h3", look.task, " ", chip(look.kind) if look.kind else "")]
    if look.question is None:
        parts.append(soft("The run does not keep its questions (store.tasks)."))
    else:
        parts.append(verbatim(shortened(look.question, LONGEST), "Question"))
    if expected is not None:
        parts.append(tag("p", tag("strong", "Expected: "), tag("code", shortened(shown, LONGEST))))
    sides = (_side(side, look.question is not None) for side in look.sides)
    return joined([*parts, tag("div", *sides, cls="sides")])


def _side(side: VersionLook, is_asked: bool) -> Markup:
    took = [
        *([count(side.tokens, "token")] if side.tokens is not None else []),
        *([f"{side.seconds:.1f} s"] if side.seconds is not None else []),
    ]
    head = tag("p", tag("strong", side.name), " ", chip(side.mark), f" {side.note}".rstrip())
    rollouts = [part for one in side.rollouts for part in _rollout(one, side, is_asked)]
    was_run = side.mark != "not evaluated"
    none = "No rollout is stored for this row." if was_run else "This task was not run with this version."
    return tag("div", head, *(rollouts or [soft(none)]), soft(", ".join(took)) if took else "")


def _rollout(one: Shown, side: VersionLook, is_asked: bool) -> Iterator[Markup]:
    draw = f"draw {one.draw + 1}, " if len(side.rollouts) > 1 else ""
    score, said = one.score, one.trajectory
    worth = "no score is stored" if score is None else f"score {score.hard:g}"
    more = f", soft {score.soft:g}" if score is not None and score.soft != score.hard else ""
    failed = f", failed by itself: {said.failure}" if said.failure else ""
    again = f", attempt {one.attempt + 1}" if one.attempt else ""
    files = f", files: {', '.join(sorted(said.files))}" if said.files else ""
    yield soft(f"{draw}{worth}{more}, {count(said.calls, 'call')}{again}{failed}{files}")
    if score is not None and score.feedback:
        yield tag("p", score.feedback)
    # What stands before the first reply is the skill and the question, which are on the page already.
    turns = one.turns
    first = next((at for at, turn in enumerate(turns) if turn.role not in ("system", "user")), 0)
    shown = turns[first if is_asked else 0 :]
    for number, turn in enumerate(shown, 1):
        named = f"Message of {turn.role}{f' {number}' if len(shown) > 1 else ''}"
        yield verbatim(shortened(turn.text or "(nothing)", LONGEST), f"{named}, {draw}{side.name}")
    if not turns:
        yield verbatim(shortened(said.answer or "(no answer)", LONGEST), f"Answer, {draw}{side.name}")
