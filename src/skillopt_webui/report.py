"""A run, finished or not, as a page that needs nothing but itself (HTML) and as a summary (Markdown)."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence

from skillopt.runs.comparison import score_table
from skillopt.runs.tasks import ComparedTask, growth
from skillopt.runs.view import RunView
from skillopt.runs.words import SPENDING_HEADS, outcome, outcomes, score, spending_rows
from skillopt_webui.render.document import SCRIPT, document
from skillopt_webui.render.markup import Markup, card, fold, joined, tag, visible
from skillopt_webui.render.run import configuration, heat, hero, screen, spending, subject
from skillopt_webui.render.steps import steps_card
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
        every = fold("Every task with every version that was measured", heat(view.tasks, view.measured))
    links = (tag("a", name, href=f"#{name.lower()}") for name in _SECTIONS)
    body = joined(
        [
            tag("h1", view.started.benchmark),
            tag("div", tag("p", subject(view, is_adopted=is_adopted), cls="row-of")),
            tag("nav", *links, aria_label="Sections"),
            tag("div", hero(view)),
            tag("div", screen(view, grown)),
            steps_card(view.changes),
            card("Val tasks by version", every, id="tasks"),
            card("The best skill", fold("The best skill", tag("pre", view.best_skill)), id="best"),
            spending(view),
            configuration(view),
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


_MARKDOWN = re.compile(r"([\\`*_\[\]|#~!])")


def markdown(text: object) -> str:
    """Text of a run as one line of plain Markdown text, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(visible(str(text)).split()), quote=False))


MARKER = "<!-- SkillOpt report -->"


def summary(view: RunView) -> str:
    """The whole file."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: RunView) -> Iterator[str]:
    yield MARKER
    simulated = ", simulated" if view.started.simulated else ""
    yield f"# {markdown(view.started.benchmark)}: {markdown(view.status)}{simulated}"
    yield ""
    yield f"Target {markdown(view.started.target)}, optimizer {markdown(view.started.optimizer)}."
    yield ""
    yield f"**{markdown(view.claim)}**" if view.claim else "The run has made no claim yet."
    yield ""
    yield from (f"- {markdown(remark)}" for remark in view.remarks)
    yield from ("", "## Scores", "")
    heads, *rows = score_table(view)
    yield from _table(heads, rows)
    yield from (
        "",
        "## Steps",
        "",
        f"{len(view.steps)} of {view.started.steps}: {outcomes(one.action for one in view.steps)}.",
        "",
    )
    if view.changes:
        steps = [
            (one.name, outcome(one.action), score(one.train), score(one.score), str(applied), one.why)
            for one in view.changes
            for applied in [sum(one.state_of(edit) == "applied" for edit in one.outcomes)]
        ]
        yield from _table(
            ("step", "verdict", "train rollouts", "val after it", "edits applied", "why"), steps
        )
    yield from ("", "## Spending", "")
    yield from _table(SPENDING_HEADS, spending_rows(view.spending, view.spent))
    if view.best_diff:
        text = visible(view.best_diff).rstrip("\n")
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        yield from ("", "## Seed against best", "", f"{fence}diff", text, fence)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows)
