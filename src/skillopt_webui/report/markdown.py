"""Writes a run's view as a short Markdown summary for a pull request or a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from skillopt.runs.comparison import score_table
from skillopt.runs.view import RunView
from skillopt.runs.words import SPENDING_HEADS, outcome, outcomes, score, spending_rows
from skillopt_webui.render.markup import visible

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
