"""Draws one task with two skills: question, expected answer, and what the target did with each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from skillopt.messages import Message
from skillopt.runs.tasks import ComparedTask, TaskSide
from skillopt.runs.versions import mark_of, note_of
from skillopt.runs.words import count, shortened
from skillopt.tasks.rollout import Score, Trajectory
from skillopt_webui.render.markup import Markup, chip, joined, soft, tag, verbatim

LONGEST = 6000
"""Characters of one text that are shown; whole transcripts lie in the run."""


def task_card(task: ComparedTask) -> Markup:
    """The task as a whole."""
    stored, shown = task.stored, ""
    parts = [tag("h3", task.id, " ", chip(stored.kind) if stored and stored.kind else "")]
    if stored is None:
        parts.append(soft("The run does not keep its questions (store.tasks)."))
    else:
        parts.append(verbatim(shortened(stored.question, LONGEST), "Question"))
        shown = stored.expected
    if stored is not None and stored.expected is not None:
        if not isinstance(shown, str):
            shown = json.dumps(shown, ensure_ascii=False, default=str)
        parts.append(tag("p", tag("strong", "Expected: "), tag("code", shortened(shown, LONGEST))))
    sides = (_side(side, stored is not None) for side in task.sides)
    return joined([*parts, tag("div", *sides, cls="sides")])


def _side(side: TaskSide, is_asked: bool) -> Markup:
    mark = mark_of(side.rows, side.version.metric, side.version.weight)
    note = note_of(side.rows, side.version.metric, side.version.weight)
    tokens = _total([row.tokens for row in side.rows])
    seconds = _total([row.seconds for row in side.rows])
    took = [
        *([] if tokens is None else [f"{tokens:,} token{'' if tokens == 1 else 's'}"]),
        *([] if seconds is None else [f"{seconds:.1f} s"]),
    ]
    head = tag("p", tag("strong", side.version.name), " ", chip(mark), f" {note}".rstrip())
    rollouts = [
        part
        for draw, one in enumerate(side.rollouts, 1)
        for part in _rollout(*one, f"draw {draw}, " if len(side.rollouts) > 1 else "", side, is_asked)
    ]
    none = "No rollout is stored for this row." if side.rows else "This task was not run with this version."
    return tag("div", head, *(rollouts or [soft(none)]), soft(", ".join(took)) if took else "")


def _total(each: Sequence[float | None]) -> float | None:
    """The sum over all draws; None where nothing is known."""
    return each[0] if len(each) == 1 else sum(one or 0 for one in each) or None


def _rollout(
    attempt: int, rollout: Trajectory, score: Score | None, draw: str, side: TaskSide, is_asked: bool
) -> Iterator[Markup]:
    worth = "no score is stored" if score is None else f"score {score.hard:g}"
    more = f", soft {score.soft:g}" if score is not None and score.soft != score.hard else ""
    failed = f", failed by itself: {rollout.failure}" if rollout.failure else ""
    again = f", attempt {attempt + 1}" if attempt else ""
    files = f", files: {', '.join(sorted(rollout.files))}" if rollout.files else ""
    yield soft(f"{draw}{worth}{more}, {count(rollout.calls, 'call')}{again}{failed}{files}")
    if score is not None and score.feedback:
        yield tag("p", score.feedback)
    # What stands before the first reply is the skill and the question, which are on the page already.
    messages = rollout.messages
    first = next((at for at, one in enumerate(messages) if one.role not in ("system", "user")), 0)
    shown = messages[first if is_asked else 0 :]
    for number, message in enumerate(shown, 1):
        named = f"Message of {message.role}{f' {number}' if len(shown) > 1 else ''}"
        text = shortened(_text(message) or "(nothing)", LONGEST)
        yield verbatim(text, f"{named}, {draw}{side.version.name}")
    if not messages:
        text = shortened(rollout.answer or "(no answer)", LONGEST)
        yield verbatim(text, f"Answer, {draw}{side.version.name}")


def _text(message: Message) -> str:
    calls = [f"-> {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([message.content] if message.content else []), *calls])
