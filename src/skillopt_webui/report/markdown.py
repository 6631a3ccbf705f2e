"""Writes a run's facts as a short Markdown summary for a pull request or a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from skillopt.runs.fold import HEADS, table
from skillopt.runs.side_by_side import score_table
from skillopt.runs.values import Facts
from skillopt.runs.words import outcome, outcomes, score
from skillopt_webui.render.markup import visible

_MARKDOWN = re.compile(r"([\\`*_\[\]|#~!])")


def markdown(text: object) -> str:
    """Text of a run as one line of plain Markdown text, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(visible(str(text)).split()), quote=False))


MARKER = "<!-- SkillOpt report -->"


def summary(facts: Facts) -> str:
    """The whole file."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    yield MARKER
    yield f"# {markdown(facts.benchmark)}: {markdown(facts.status)}{', simulated' if facts.simulated else ''}"
    yield ""
    yield f"Target {markdown(facts.target)}, optimizer {markdown(facts.optimizer)}."
    yield ""
    yield f"**{markdown(facts.claim)}**" if facts.claim else "The run has made no claim yet."
    yield ""
    yield from (f"- {markdown(remark)}" for remark in facts.remarks)
    yield from ("", "## Scores", "")
    heads, *rows = score_table(facts)
    yield from _table(heads, rows)
    yield from (
        "",
        "## Steps",
        "",
        f"{len(facts.steps)} of {facts.planned}: {outcomes(one.action for one in facts.steps)}.",
        "",
    )
    if facts.changes:
        steps = [
            (one.name, outcome(one.action), score(one.train), score(one.score), str(applied), one.why)
            for one in facts.changes
            for applied in [sum(one.state_of(edit) == "applied" for edit in one.outcomes)]
        ]
        yield from _table(
            ("step", "verdict", "train rollouts", "val after it", "edits applied", "why"), steps
        )
    yield from ("", "## Spending", "")
    yield from _table(HEADS, table(facts.spending, facts.spent))
    if facts.best_diff:
        text = visible(facts.best_diff).rstrip("\n")
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        yield from ("", "## Seed against best", "", f"{fence}diff", text, fence)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows)
