"""Draws scores as one inline SVG: train and val over the steps, verdicts as shapes, the sealed test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt.report.escape import escape
from skillopt.runs.side_by_side import tested
from skillopt.runs.values import Facts, SkillChange
from skillopt.runs.words import interval, outcome, score
from skillopt.train.sealed_test import TestReport

_WIDTH, _HEIGHT = 920, 330
_LEFT, _TOP, _BOTTOM = 48, 16, 288
_PLOT_RIGHT = 730
_TEST_AT = (790, 860)
"""Where seed and best of the test stand."""
_MOST_TICKS = 16


def scores(facts: Facts) -> str:
    """The chart as an SVG element; its facts also stand in the tables of the page."""
    last = max([1.0, float(facts.planned), *(change.at for change in facts.changes)])
    parts = [*_axes(last, int(last)), *_train(facts.changes, last), *_val(facts, last), *_test(facts.test)]
    title = (
        f"Scores over {len(facts.steps)} steps: val {score(facts.baseline)} for the seed, {score(facts.best)}"
        " for the best skill"
    )
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def sign(word: str, x: float, y: float, note: str = "") -> str:
    """The shape of an outcome, as in the legend."""
    title = f"<title>{escape(note)}</title>" if note else ""
    if word == "accepted":
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" class="ok"/>'
    elif word == "rejected":
        shape = f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10" class="no"/>'
    elif word == "taken without a gate":
        shape = f'<path d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7-7z" class="free"/>'
    elif word == "inconclusive":
        shape = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" class="open"/><text x="{x:.1f}" y="{y + 4:.1f}"'
            ' class="mid strong">?</text>'
        )
    else:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="open"/>'
    return f"<g>{title}{shape}</g>"


def _axes(last: float, steps: int) -> Iterator[str]:
    for quarter in range(5):
        y = _y(quarter / 4)
        yield f'<path d="M{_LEFT} {y:.1f}H{_PLOT_RIGHT}" class="grid"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" class="end">{quarter / 4:.2f}</text>'
    every = max(1, -(-steps // _MOST_TICKS))
    for step in range(0, steps + 1, every):
        yield f'<text x="{_x(step, last):.1f}" y="{_BOTTOM + 18}" class="mid">{step or "seed"}</text>'
    yield f'<text x="{(_LEFT + _PLOT_RIGHT) / 2}" y="{_HEIGHT - 6}" class="mid">step</text>'


def _train(changes: Sequence[SkillChange], last: float) -> Iterator[str]:
    points = [(_x(change.at, last), change) for change in changes if change.train is not None]
    line = " ".join(f"{x:.1f},{_y(change.train or 0.0):.1f}" for x, change in points)
    if points:
        yield f'<polyline points="{line}" class="train"/>'
    for x, change in points:
        y = _y(change.train or 0.0)
        note = f"{change.name}: train rollouts {score(change.train)} over {change.train_rows} rows"
        yield (
            f'<g><title>{escape(note)}</title><rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"'
            ' class="dot"/></g>'
        )


def _val(facts: Facts, last: float) -> Iterator[str]:
    """The current skill's score as stairs, with a gap where it is unknown (only with the gate off)."""
    if facts.baseline is None:
        return
    path, at, known = f"M{_x(0, last):.1f} {_y(facts.baseline):.1f}", facts.baseline, True
    marks = [
        f'<g><title>the seed: val {score(facts.baseline)}</title><circle cx="{_x(0, last):.1f}"'
        f' cy="{_y(at):.1f}" r="4" class="ok"/></g>'
    ]
    for change in facts.changes:
        x = _x(change.at, last)
        if known:
            path += f"H{x:.1f}"
        if change.score is not None:
            path += f"{'V' if known else f'M{x:.1f} '}{_y(change.score):.1f}"
            at = change.score
        known = change.score is not None
        word = outcome(change.action)
        note = f"{change.name}: {word}, {change.why}"
        marks.append(sign(word, x, _y(at), note))
    yield f'<path d="{path}" class="val"/>'
    yield from marks


def _test(test: TestReport) -> Iterator[str]:
    middle = sum(_TEST_AT) / 2
    yield f'<path d="M{_PLOT_RIGHT + 20} {_TOP}V{_BOTTOM}" class="grid"/>'
    yield f'<text x="{middle}" y="{_HEIGHT - 6}" class="mid">{tested(test)}</text>'
    compared = test.comparison
    if compared is None:
        yield f'<text x="{middle}" y="{_y(0.5):.1f}" class="mid">not measured</text>'
        return
    seed, best = _TEST_AT
    low, high = compared.reach
    note = f"{interval(compared)} of the change, from the seed"
    bar = f"M{best} {_y(low):.1f}V{_y(high):.1f}M{best - 7} {_y(low):.1f}h14M{best - 7} {_y(high):.1f}h14"
    yield f'<g><title>{escape(note)}</title><path d="{bar}" class="whisker"/></g>'
    for name, x, at in (("seed", seed, compared.before), ("best", best, compared.after)):
        yield (
            f'<g><title>{name}: test {score(at)}</title><path d="M{x} {_y(at) - 7:.1f}l6 12h-12z"'
            ' class="test"/></g>'
        )
        yield f'<text x="{x + 12}" y="{_y(at) + 4:.1f}">{score(at)}</text>'
        yield f'<text x="{x}" y="{_BOTTOM + 18}" class="mid">{name}</text>'


def _x(at: float, last: float) -> float:
    return _LEFT + 14 + (_PLOT_RIGHT - _LEFT - 24) * at / last


def _y(value: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value
