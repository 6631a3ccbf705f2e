"""Decides how the figures of a run are drawn: options for the chart library, made of numbers and words of
ours, never of a run's text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from skillopt.account import Total
from skillopt.messages import Role
from skillopt.runs.curves import CurvePoint, Curves

T = TypeVar("T")
BLUE, ORANGE, GREEN, RED, VIOLET, GREY = (
    f"var(--so-{name})" for name in ("blue", "orange", "green", "red", "violet", "soft")
)
INK, LINE, CARD = "var(--so-ink)", "var(--so-line)", "var(--so-card)"
FONT = "system-ui, sans-serif"
_CROSS = "path://M2,0 L5,3 L8,0 L10,2 L7,5 L10,8 L8,10 L5,7 L2,10 L0,8 L3,5 L0,2 Z"
_MARKS = {
    "accepted": ("circle", GREEN),
    "rejected": (_CROSS, RED),
    "unchanged": ("emptyCircle", GREY),
    "inconclusive": ("triangle", ORANGE),
    "taken without a gate": ("diamond", ORANGE),
}
_NUMBER = (
    "value => value === null || value === undefined || value === '-' ? 'not measured' : (+value).toFixed(3)"
)
LONGEST = 400
"""Steps that are drawn one by one; of longer runs the rest is thinned out, but no accepted change is."""


def scores(curves: Curves) -> dict[str, Any]:
    """Train, val and test over the steps; the limit, and a mark for every candidate."""
    most = max([1, *(limit for _, limit in curves.limits)])
    return {
        "backgroundColor": "transparent",
        "animation": False,
        "textStyle": {"color": GREY, "fontFamily": FONT},
        "grid": {"left": 48, "right": 44, "top": 76, "bottom": 44},
        "legend": {"top": 0, "textStyle": {"color": INK}, "data": _legend(curves), "itemGap": 14},
        "tooltip": {"trigger": "axis", "renderMode": "richText", ":valueFormatter": _NUMBER, "confine": True},
        "xAxis": _axis("step", min=0, max=_end(curves), minInterval=1),
        "yAxis": [
            _axis(f"{curves.metric} score", min=0, max=1),
            {**_axis("limit", min=0, interval=most, max=4 * most), "splitLine": {"show": False}},
        ],
        "series": series(curves),
    }


def series(curves: Curves) -> list[dict[str, Any]]:
    """The part of the chart that grows; always the same number of series, so that it can be replaced in
    place.
    """
    drawn = [
        _line("train", _thinned(curves.train), ORANGE, dashed=True),
        {**_line("val", curves.val, BLUE), "step": "end", "z": 4},
        {
            "name": "limit",
            "type": "line",
            "step": "middle",
            "yAxisIndex": 1,
            "data": [[at, limit] for at, limit in _thinned(curves.limits)],
            "symbol": "none",
            "lineStyle": {"color": GREY, "width": 1.5, "type": "dotted"},
            "itemStyle": {"color": GREY},
        },
    ]
    for word, (symbol, colour) in _MARKS.items():
        hits = [one for one in curves.tried if one.outcome == word]
        points = _rounded([(one.at, one.reached) for one in hits if one.reached is not None])
        drawn.append(
            {
                "name": word,
                "type": "scatter",
                "symbol": symbol,
                "symbolSize": 10 if len(curves.tried) < 100 or word == "accepted" else 5,
                "data": points if word == "accepted" else list(_thinned(points)),
                "itemStyle": {"color": colour},
                "z": 6,
            }
        )
    test = curves.test
    ends = [] if test is None else [(test.best[0], end) for end in test.interval]
    drawn.append(_mark("test, seed", [] if test is None else [test.seed]))
    drawn.append(_mark("test, best", [] if test is None else [test.best]))
    drawn.append(_whisker("test, best, interval", ends))
    return drawn


def bars(paid: Mapping[tuple[Role, str], Total]) -> dict[str, Any]:
    """Tokens by stage, one colour and one name a role."""
    roles = sorted({role for role, _ in paid})
    stages = list(dict.fromkeys(stage for _, stage in paid))
    colours = {"target": BLUE, "optimizer": ORANGE, "judge": VIOLET}
    return {
        "animation": False,
        "textStyle": {"color": GREY, "fontFamily": FONT},
        "grid": {"left": 120, "right": 24, "top": 40, "bottom": 40},
        "legend": {"top": 0, "textStyle": {"color": INK}},
        "tooltip": {
            "trigger": "axis",
            "renderMode": "richText",
            "axisPointer": {"type": "shadow"},
            "confine": True,
        },
        "xAxis": _axis("tokens", min=0),
        "yAxis": {
            "type": "category",
            "inverse": True,
            "data": stages,
            "axisLabel": {"color": INK},
            "axisLine": {"lineStyle": {"color": LINE}},
        },
        "series": [
            {
                "name": role,
                "type": "bar",
                "stack": "tokens",
                "data": [paid[role, stage].tokens if (role, stage) in paid else 0 for stage in stages],
                "itemStyle": {"color": colours.get(role, GREY)},
            }
            for role in roles
        ],
    }


def together(runs: Sequence[tuple[str, Curves]]) -> dict[str, Any]:
    """The val scores of several runs on one pair of axes."""
    colours = (BLUE, ORANGE, GREEN, VIOLET, RED, GREY)
    dashes = ("solid", "dashed", "dotted")
    most = max([1, *(_end(curves) for _, curves in runs)])
    return {
        "animation": False,
        "textStyle": {"color": GREY, "fontFamily": FONT},
        "grid": {"left": 48, "right": 20, "top": 56, "bottom": 44},
        "legend": {"top": 0, "textStyle": {"color": INK}, "type": "scroll"},
        "tooltip": {"trigger": "axis", "renderMode": "richText", ":valueFormatter": _NUMBER, "confine": True},
        "xAxis": _axis("step", min=0, max=most, minInterval=1),
        "yAxis": _axis("val score", min=0, max=1),
        "series": [
            {
                **_line(name, curves.val, colours[place % len(colours)]),
                "step": "end",
                "lineStyle": {
                    "color": colours[place % len(colours)],
                    "width": 2,
                    "type": dashes[place // len(colours) % len(dashes)],
                },
            }
            for place, (name, curves) in enumerate(runs)
        ],
    }


def spoken(curves: Curves) -> str:
    """The chart in a sentence, for people who cannot see it."""
    if not curves.val:
        return "Score chart: nothing was measured yet."
    (_, first), (at, last) = curves.val[0], curves.val[-1]
    slow = "the slow update of " if at % 1 else ""  # it is drawn half a step behind its epoch
    when = f"{slow}step {math.floor(at)} of {curves.planned}"
    said = f"Score chart. Val: {first:.3f} with the seed, {last:.3f} after {when}."
    if curves.test:
        said += (
            f" Sealed test: {curves.test.seed[1]:.3f} with the seed, {curves.test.best[1]:.3f}"
            " with the best skill."
        )
    return said


def _end(curves: Curves) -> int:
    """Where the axis of steps ends: a slow update stands half a step behind its epoch."""
    return math.ceil(max([1, curves.planned, *(one.at for one in curves.tried)]))


def _legend(curves: Curves) -> list[str]:
    happened = {one.outcome for one in curves.tried}
    return [
        "train",
        "val",
        *(word for word in _MARKS if word in happened),
        *(["test, seed", "test, best"] if curves.test else []),
        "limit",
    ]


def _thinned(points: Sequence[T]) -> Sequence[T]:
    """Every so many-th point of a long curve, and its last."""
    if len(points) <= LONGEST:
        return points
    every = -(-len(points) // LONGEST)
    return [*points[:-1:every], points[-1]]


def _line(name: str, points: Sequence[CurvePoint], colour: str, *, dashed: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "type": "line",
        "data": _rounded(points),
        "symbol": "circle" if len(points) < 80 else "none",
        "symbolSize": 5,
        "lineStyle": {"color": colour, "width": 2, "type": "dashed" if dashed else "solid"},
        "itemStyle": {"color": colour},
        "z": 3,
    }


def _mark(name: str, points: Sequence[CurvePoint]) -> dict[str, Any]:
    return {
        "name": name,
        "type": "scatter",
        "symbol": "diamond",
        "symbolSize": 13,
        "data": _rounded(points),
        "itemStyle": {"color": VIOLET},
        "z": 7,
    }


def _whisker(name: str, ends: Sequence[CurvePoint]) -> dict[str, Any]:
    """An interval as an upright line."""
    return {
        "name": name,
        "type": "line",
        "data": _rounded(ends),
        "symbol": "rect",
        "symbolSize": [11, 2],
        "lineStyle": {"color": VIOLET, "width": 2},
        "itemStyle": {"color": VIOLET},
        "tooltip": {"show": False},
        "z": 5,
    }


def _rounded(points: Sequence[CurvePoint]) -> list[list[float]]:
    return [[at, round(score, 4)] for at, score in points]


def _axis(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "value",
        "name": name,
        "nameTextStyle": {"color": GREY},
        "nameLocation": "middle" if name in ("step", "tokens") else "end",
        "nameGap": 26 if name in ("step", "tokens") else 12,
        "axisLabel": {"color": GREY, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": LINE}},
        "splitLine": {"lineStyle": {"color": LINE, "opacity": 0.6}},
        **more,
    }
