"""Draws scores as inline SVG: val as stairs with every verdict as a shape, the sealed test beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt.runs.comparison import tested
from skillopt.runs.tasks import Growth
from skillopt.runs.versions import SkillVersion
from skillopt.runs.view import RunView
from skillopt.runs.words import SIGNS, interval, outcome, score
from skillopt_webui.render.markup import Markup, joined, tag

_WIDTH, _HEIGHT = 1000, 170
_LEFT, _TOP, _BOTTOM = 40, 20, 136
_RIGHT = 830
"""Where the stairs end when the sealed test stands beside them; without it they take the whole width."""
_TEST_AT = (885, 945)
_MOST_TICKS = 16
_MOST_LABELS = 24
_COLOURS = ("blue", "orange", "green", "violet", "red", "soft")


class _Plot:
    """Places of a chart in its picture."""

    def __init__(self, last: float, right: float) -> None:
        self.last, self.right = max(1.0, last), right

    def x(self, at: float) -> float:
        return round(_LEFT + 14 + (self.right - _LEFT - 28) * at / self.last, 1)

    def y(self, value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * value, 1)

    def axes(self) -> Iterator[Markup]:
        for quarter in range(5):
            y = self.y(quarter / 4)
            yield tag("path", d=f"M{_LEFT} {y}H{self.right}", cls="grid")
            yield tag("text", f"{quarter / 4:g}", x=_LEFT - 8, y=y + 4, cls="end")
        every = max(1, -(-int(self.last) // _MOST_TICKS))
        for step in range(0, int(self.last) + 1, every):
            yield tag("text", str(step) if step else "seed", x=self.x(step), y=_BOTTOM + 17, cls="mid")
        yield tag("text", "step", x=(_LEFT + self.right) / 2, y=_HEIGHT - 4, cls="mid")


def stairs(view: RunView, grown: Growth) -> Markup:
    """The chart of a run; its view also stand in the tables of the page. A press on a verdict chooses it."""
    last = max([float(view.started.steps), *(one.at for one in grown.moments)])
    plot = _Plot(last, _RIGHT if view.test.comparison else 990)
    title = (
        f"Scores over {len(view.steps)} steps: val {score(view.baseline)} for the seed, {score(view.best)}"
        " for the best skill"
    )
    parts = [*plot.axes(), *_train(grown, plot), *_val(grown, plot), *_test(view, plot)]
    cursor = tag("path", d=f"M0 {_TOP}V{_BOTTOM}", cls="cursor")
    return _picture("chart stairs", title, cursor, *parts)


def together(runs: Sequence[tuple[str, RunView]]) -> Markup:
    """The val scores of several runs on one pair of axes, each with its colour, its dashes and its name."""
    plot = _Plot(max(float(view.started.steps) for _, view in runs), 990)
    lines, names = [], []
    for place, (name, view) in enumerate(runs):
        kind = f"line{place % len(_COLOURS)}"
        if view.baseline is not None:
            path = f"M{plot.x(0)} {plot.y(view.baseline)}"
            for change in view.changes:
                if change.score is not None:
                    path += f"H{plot.x(change.at)}V{plot.y(change.score)}"
            lines.append(tag("path", tag("title", name), d=path, cls=f"val {kind}"))
        names.append(tag("li", _key(tag("path", d="M0 9h28", cls=f"val {kind}")), name))
    label = "Val scores of the runs; the table below has the figures"
    return joined([_picture("chart", label, *plot.axes(), *lines), tag("ul", *names, cls="legend")])


def _picture(cls: str, label: str, *parts: Markup) -> Markup:
    return tag("svg", *parts, cls=cls, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)


def sign(word: str, x: float, y: float) -> Markup:
    """The shape of an outcome."""
    if word in ("accepted", "baseline", "pruned"):
        return tag("circle", cx=x, cy=y, r=6, cls="ok")
    if word == "rejected":
        return tag("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10", cls="no")
    if word == "taken without a gate":
        return tag("path", d=f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7-7z", cls="free")
    ring = tag("circle", cx=x, cy=y, r=8 if word == "inconclusive" else 5, cls="open")
    mark = tag("text", "?", x=x, y=y + 4, cls="mid strong")
    return joined([ring, mark] if word == "inconclusive" else [ring])


def moment_text(moment: SkillVersion) -> str:
    """A moment in a sentence."""
    if moment.short == "seed":
        return f"the seed: val {score(moment.score)}"
    word = outcome(moment.action)
    return f"{moment.name}: {word}{f', {moment.why}' if moment.why else ''}"


def _train(grown: Growth, plot: _Plot) -> Iterator[Markup]:
    points = [
        f"{plot.x(one.at)},{plot.y(one.train)}"
        for one in grown.moments
        if one.train is not None and one.at % 1 == 0
    ]
    if points:
        yield tag("polyline", points=" ".join(points), cls="train")


def _val(grown: Growth, plot: _Plot) -> Iterator[Markup]:
    """The current score as stairs, with gaps where it is unknown; candidates not taken hang below."""
    if grown.moments[0].score is None:
        return
    at = grown.moments[0].score
    path, known, marks = f"M{plot.x(0)} {plot.y(at)}", True, []
    taken = sum(one.is_taken for one in grown.moments)
    for k, one in enumerate(grown.moments):
        x, before = plot.x(one.at), at
        if known:
            path += f"H{x}"
        if one.score is not None:
            path += f"V{plot.y(one.score)}" if known else f"M{x} {plot.y(one.score)}"
            at = one.score
        known = one.score is not None
        y = plot.y(at)
        inside = [tag("title", moment_text(one)), tag("path", d=f"M{x} {_TOP}V{_BOTTOM}", cls="hit")]
        if not one.is_taken and one.reached is not None:
            y = plot.y(min(one.reached, before))
            inside.append(tag("path", d=f"M{x} {plot.y(before)}V{y}", cls="hang"))
        inside.append(sign(outcome(one.action), x, y))
        if one.is_taken and taken <= _MOST_LABELS and one.score is not None:
            inside.append(tag("text", f"{one.score:.2f}", x=x, y=y - 11, cls="mid strong"))
        marks.append(tag("g", *inside, data_k=k, data_x=x, cls="moment"))
    yield tag("path", d=path, cls="val")
    yield from marks


def _test(view: RunView, plot: _Plot) -> Iterator[Markup]:
    compared = view.test.comparison
    if compared is None:
        return
    middle = sum(_TEST_AT) / 2
    yield tag("path", d=f"M{_RIGHT + 15} {_TOP}V{_BOTTOM}", cls="grid")
    yield tag("text", tested(view), x=middle, y=_HEIGHT - 4, cls="mid")
    seed, best = _TEST_AT
    low, high = (plot.y(end) for end in compared.reach)
    bar = f"M{best} {low}V{high}M{best - 7} {low}h14M{best - 7} {high}h14"
    note = f"{interval(compared)} of the change, from the seed"
    yield tag("g", tag("title", note), tag("path", d=bar, cls="whisker"))
    for name, x, at in (("seed", seed, compared.before), ("best", best, compared.after)):
        shape = tag("path", d=f"M{x} {plot.y(at) - 7:.1f}l6 12h-12z", cls="test")
        yield tag("g", tag("title", f"{name}: test {score(at)}"), shape)
        yield tag("text", score(at), x=x + 10, y=plot.y(at) + 4)
        yield tag("text", name, x=x, y=_BOTTOM + 17, cls="mid")


def legend(view: RunView) -> Markup:
    """What the shapes of the chart mean."""
    happened = {outcome(change.action) for change in view.changes}
    keys = [
        (tag("path", d="M0 9h28", cls="val"), f"val score of the current skill ({view.metric})"),
        (tag("path", d="M0 9h28", cls="train"), _TRAIN),
        *((sign(word, 14, 9), _WORDS.get(word, word)) for word in SIGNS if word in happened),
    ]
    if view.test.comparison is not None:
        shape = tag("path", d="M14 3l6 12h-12z", cls="test")
        keys.append((shape, f"{tested(view)}, with the interval of the change from the seed's score"))
    return tag("ul", *(tag("li", _key(shape), words) for shape, words in keys), cls="legend")


_TRAIN = "mean of the step's train rollouts, with the skill before it"
_WORDS = {"rejected": "rejected, at its score or the most it could still have reached"}


def _key(shape: Markup) -> Markup:
    return tag("svg", shape, cls="key", width=28, height=18, aria_hidden="true")
