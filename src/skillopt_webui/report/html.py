"""Writes a run as one HTML page that needs nothing but itself: the screen of the live page, frozen."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator

from skillopt.runs.tasks import ComparedTask, growth
from skillopt.runs.view import RunView
from skillopt_webui.render.document import SCRIPT, document
from skillopt_webui.render.markup import Markup, card, fold, joined, soft, tag
from skillopt_webui.render.run import configuration, heat, hero, screen, spending, subject
from skillopt_webui.render.steps import steps
from skillopt_webui.render.task import task_card

MOST_ANSWERS = 1 << 20
"""Characters of answers that a page carries; `skillopt runs show` has all."""
_SECTIONS = ("Scores", "Skill", "Steps", "Tasks", "Spending", "Configuration")


def page(
    view: RunView, tasks: Iterable[ComparedTask] = (), *, is_adopted: bool = False, play: float | None = None
) -> str:
    """The whole page; a square of the wall opens its task, as far as `MOST_ANSWERS`. With
    `play` it moves through the run by itself, in so many seconds.
    """
    grown = growth(view)
    every = tag("p", "No val task is measured yet.")
    if view.measured:
        everything = heat(view.tasks, view.measured)
        every = fold("Every task with every version that was measured", everything)
    links = (tag("a", name, href=f"#{name.lower()}") for name in _SECTIONS)
    told = soft("Each step opens to its edits, their evidence and what it did to the skill.")
    body = joined(
        [
            tag("h1", view.started.benchmark),
            tag("div", tag("p", subject(view, is_adopted=is_adopted), cls="row-of")),
            tag("nav", *links, aria_label="Sections"),
            tag("div", hero(view)),
            tag("div", screen(view, grown)),
            card("Steps", told, steps(view.changes), id="steps"),
            card("Val tasks by version", every, id="tasks"),
            card("The best skill", fold("The best skill", tag("pre", view.best_skill)), id="best"),
            card("Spending", spending(view.spending, view.spent), id="spending"),
            card("Configuration", fold("Every key", configuration(view)), id="configuration"),
            *_answers(tasks),
        ]
    )
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = joined(
        [
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="generator", content="SkillOpt report"),
        ]
    )
    return document(
        f"SkillOpt: {view.started.benchmark}, {view.started.target}",
        tag("main", body),
        head=head,
        script=Markup(f"<script>{SCRIPT}</script>"),
        play=play,
    )


def _answers(tasks: Iterable[ComparedTask]) -> Iterator[Markup]:
    left = MOST_ANSWERS
    for task in tasks:
        kept = tag("template", task_card(task), data_task=task.id)
        left -= len(kept)
        if left < 0:
            return
        yield kept
