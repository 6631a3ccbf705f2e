"""Draws the parts of the run page: figures, the skill with its gutter, the wall of tasks, money, settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from skillopt.evaluation.significance import TONES
from skillopt.runs import words
from skillopt.runs.best import FlaggedLine
from skillopt.runs.comparison import tested
from skillopt.runs.tasks import MARK_SIGNS, MARKS, GrownLine, Growth
from skillopt.runs.versions import Mark, SkillVersion, patterns_of, studies_behind
from skillopt.runs.view import RunView
from skillopt.runs.words import (
    NOT_MEASURED,
    SIGNS,
    SPENDING_HEADS,
    UNKNOWN_IS_NOT_ZERO,
    amount,
    count,
    interval,
    money,
    outcome,
    outcomes,
    score,
    spending_rows,
)
from skillopt_webui.render.markup import (
    Markup,
    card,
    chip,
    diff,
    fold,
    joined,
    listed,
    pairs,
    region,
    soft,
    table,
    tag,
)
from skillopt_webui.render.stairs import legend, moment_text, stairs

SQUARES = 500
"""Tasks on the wall; of more those that changed most often, and the page of tasks has all."""
LONGEST_LIST = 24
"""Tasks that are named in a line; of more only the number is shown."""
_BARS = 12
"""Blocks in the gutter of a line, at most, for what its step fixed and broke."""
_WORDS: dict[Mark, str] = {
    "pass": "passed",
    "partial": "partly",
    "fail": "failed",
    "invalid": "invalid: could not be measured, no score",
    "not evaluated": "not evaluated: the verdict was fixed without it",
}


def hero(view: RunView) -> Markup:
    """Seed and best in large figures, on the test or before it on val, what they prove, and the claim."""
    compared, paid, proven = view.test.comparison, view.spent, chip(view.significance)
    if compared is not None:
        before, after = score(compared.before), score(compared.after)
        moved = f"{len(compared.fixed)} fixed, {len(compared.broken)} broken"
        boxes = [
            (proven, f"{compared.delta:+.3f}, {interval(compared)}"),
            (f"{compared.n} tasks", f"{tested(view)} ({view.test.metric})"),
            (moved, f"p = {compared.p:.2g}, {compared.test}"),
        ]
    else:
        before, after = score(view.baseline), score(view.best)
        is_open = view.status != "finished"
        sealed = "not opened yet" if is_open else NOT_MEASURED
        origin = f"seed to best, {view.best_origin}" if view.best_origin else ""
        boxes = [(proven, f"{tested(view)}: {sealed}"), (f"val ({view.metric})", origin)]
    boxes += [
        (f"{len(view.steps)} of {view.started.steps} steps", outcomes(one.action for one in view.steps)),
        (f"{amount(paid.calls)} calls", f"{amount(paid.tokens)} tokens, cost {money(paid.dollars)}"),
    ]
    scores = [
        before,
        tag("span", " → ", cls="soft"),
        tag("span", after, cls=f"after {TONES[view.significance]}"),
    ]
    figure = tag("p", *([NOT_MEASURED] if view.baseline is None else scores), cls="figure")
    facts_ = pairs(boxes, cls="boxes")
    claim = tag("p", view.claim or "The run has made no claim yet.", cls="claim")
    remarks = listed(view.remarks, cls="remarks") if view.remarks else ""
    return joined([tag("div", figure, facts_, cls="hero"), claim, Markup(remarks)])


def subject(view: RunView, *, is_adopted: bool) -> Markup:
    """What was trained, on what, with whom; and whether its best skill is in use."""
    sizes = ", ".join(f"{number} {name}" for name, number in view.started.counts.items())
    states = [view.status, *["simulated"] * view.started.simulated, *["adopted"] * is_adopted]
    about = f"{words.subject(view.started)} · tasks: {sizes}"
    return joined([*map(chip, states), tag("span", about, cls="soft")])


def screen(view: RunView, grown: Growth, flagged: Sequence[FlaggedLine] = ()) -> Markup:
    """One moment of the run: the stairs as a scrubber, the skill as it grew, and the wall of val tasks."""
    if view.baseline is None:
        return tag("p", "Nothing is measured yet: the stairs begin with the baseline of the seed.")
    last = len(grown.moments) - 1
    shown = last if view.status == "running" else grown.best
    scrubber = tag(
        "input",
        type="range",
        id="scrubber",
        min=0,
        max=last,
        value=shown,
        aria_label="Moment of the run; arrow keys go from step to step",
        aria_valuetext=moment_text(grown.moments[shown]),
    )
    play = tag("button", "Play", id="play", type="button")
    scores = tag(
        "section",
        tag("h2", "Val score: ", tag("span", moment_text(grown.moments[shown]), id="moment", role="status")),
        region("Chart of the val score", stairs(view, grown), cls="wide"),
        tag("div", play, scrubber, cls="player"),
        cls="card",
        aria_label="Scores",
        id="scores",
    )
    both = tag("div", _skill(view, grown, shown, flagged), _wall(view, grown, shown), cls="two")
    return joined([tag("div", scores, both, cls="screen"), _meaning(view)])


def _meaning(view: RunView) -> Markup:
    """What the shapes of the stairs mean, and which tasks of the sealed test changed."""
    found = view.test.comparison
    folds = [fold("What the shapes mean", legend(view), key="legend")]
    if found is not None:
        folds += [
            fold(f"{title}: {len(tasks)}", tag("p", ", ".join(tasks)), key=title)
            for title, tasks in (("Fixed tasks", found.fixed), ("Broken tasks", found.broken))
            if tasks
        ]
        if view.test.final is not None:
            folds.append(soft(f"The last skill: {score(view.test.final)}."))
    return tag("div", *folds, cls="folds")


def _skill(view: RunView, grown: Growth, shown: int, flagged: Sequence[FlaggedLine]) -> Markup:
    marks = {one.line: one for one in flagged}
    keys = [tag("i", cls="fixed"), tag("span", " fixed "), tag("i", cls="broke"), tag("span", " broke")]
    body = tag("ol", *(_line(grown, line, shown, marks.get(line.text)) for line in grown.lines), cls="skill")
    changed = soft("The best skill is the seed.")
    if view.best_diff:
        changed = fold("Seed against best", diff(view.best_diff, "Seed against best"), key="best")
    note = tag("span", "the step that wrote each line, and what it did to the val tasks: ", *keys, cls="soft")
    head = tag("div", tag("h2", "SKILL.md"), note, cls="row-of")
    warned = listed([str(one) for one in flagged], cls="remarks") if flagged else ""
    return tag("section", head, Markup(warned), body, changed, cls="card", id="skill", aria_label="Skill")


def _line(grown: Growth, line: GrownLine, shown: int, flagged: FlaggedLine | None) -> Markup:
    is_there = line.first <= shown and (line.gone is None or shown < line.gone)
    moment = grown.moments[line.first]
    text = tag("code", line.text or " ")
    gutter = [tag("span", moment.name if line.first else "", cls="step")]
    if line.first:
        gutter.append(_bars(len(grown.fixed[line.first]), len(grown.broke[line.first])))
    if flagged is not None:
        gutter.append(chip(f"flagged {flagged.number}: {flagged.flags[0].reason}", "bad"))
    inside = tag("span", *gutter, text, cls="row")
    if line.first and line.text.strip():
        behind = pairs(_behind(grown, line), cls="behind")
        inside = tag("details", tag("summary", *gutter, text, cls="row"), behind)
    return tag(
        "li",
        inside,
        data_first=line.first,
        data_gone=line.gone,
        hidden=not is_there,
        cls=" ".join(["blank"] * (not line.text.strip()) + ["new"] * (line.first == shown > 0)),
    )


def _bars(fixed: int, broke: int) -> Markup:
    scale = max(1.0, (fixed + broke) / _BARS)
    blocks = [tag("i", cls="fixed")] * round(fixed / scale) + [tag("i", cls="broke")] * round(broke / scale)
    return tag("span", *blocks, cls="bars", title=f"fixed {fixed}, broke {broke}")


def _behind(grown: Growth, line: GrownLine) -> Iterator[tuple[str, str]]:
    moment, edit = grown.moments[line.first], line.edit
    yield "verdict", f"{outcome(moment.action)}: {moment.why}"
    if edit is not None:
        studies, support = studies_behind(edit, moment), edit.evidence.get("support_count", "")
        yield "edit", edit.id + (f", supported by {support}" if support != "" else "")
        if rationale := str(edit.evidence.get("rationale", "")):
            yield "rationale", rationale
        is_success = edit.evidence.get("source_type") == "success"
        tasks = dict.fromkeys(task for study in studies for task in study.tasks)
        yield "from successes" if is_success else "from failures", named(list(tasks))
        if patterns := dict.fromkeys(seen for study in studies for seen in patterns_of(study)):
            yield "seen in them", "; ".join(patterns)
    yield "fixed on val", named(grown.fixed[line.first])
    yield "broke on val", named(grown.broke[line.first])


def named(tasks: Sequence[str]) -> str:
    """Tasks by name, or how many there are."""
    if not tasks:
        return "none"
    more = len(tasks) - LONGEST_LIST
    return ", ".join(tasks[:LONGEST_LIST]) + (f" and {more:,} more" if more > 0 else "")


def _wall(view: RunView, grown: Growth, shown: int) -> Markup:
    tasks = grown.most_changed(view.tasks, SQUARES)
    squares = [_square(grown, task, shown, place) for place, task in enumerate(tasks)]
    counted = tag("span", grown.counts[shown], id="passing")
    most = f" · {len(tasks)} most changed shown" if len(tasks) < len(view.tasks) else ""
    label = "Val tasks; arrow keys walk, Enter opens"
    wall = tag("div", *squares, cls="wall", role="group", aria_label=label)
    note = soft("Framed is what this step changed. Press a square to see what the target did.")
    empty = tag("div", id="task", data_part="task")
    return tag(
        "section",
        tag("h2", "Val tasks: ", counted, most),
        note,
        wall,
        empty,
        cls="card",
        id="wall",
        aria_label="Val tasks",
        data_taken=" ".join(str(k) for k, one in enumerate(grown.moments) if one.is_taken),
        data_counts="|".join(grown.counts),
        data_shorts=" ".join(one.short for one in grown.moments),
    )


def _square(grown: Growth, task: str, shown: int, place: int) -> Markup:
    found, mark = grown.marks.get(task, ()), grown.mark(task, shown)
    return tag(
        "button",
        MARK_SIGNS[mark],
        type="button",
        cls=mark.replace(" ", "-"),
        data_task=task,
        data_marks=" ".join(f"{first}:{MARKS.index(mark)}" for first, mark in found),
        tabindex=-1 if place else 0,
        title=f"{task}: {mark}",
    )


def heat(tasks: Sequence[str], versions: Sequence[SkillVersion], base: str = "") -> Markup:
    """The table of tasks and versions. With `base`, an address that ends in a query, cells are links."""
    head = [tag("th", "task", scope="col")]
    for version in versions:
        word, passed = outcome(version.action), sum(mark == "pass" for mark in version.marks.values())
        title = f"{version.name}, {word}: {passed} of {len(version.marks)} measured tasks passed"
        mark_ = joined([tag("br"), tag("span", SIGNS.get(word, " "))])
        head.append(tag("th", version.short, mark_, scope="col", title=title))
    body = []
    for name in tasks:
        cells = []
        for version in versions:
            mark = version.marks.get(name, "not evaluated")
            inside: str = MARK_SIGNS[mark]
            if base:
                href = f"{base}&{urlencode({'task': name, 'version': version.short})}"
                is_first = name == tasks[0] and version is versions[0]
                label = f"{name}, {version.name}: {mark}"
                inside = tag("a", inside, href=href, aria_label=label, tabindex=0 if is_first else -1)
            cells.append(tag("td", inside, cls=mark.replace(" ", "-")))
        body.append(tag("tr", tag("th", name, scope="row"), *cells))
    made = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    keys = (
        tag("li", tag("span", MARK_SIGNS[mark], cls=f"swatch {mark.replace(' ', '-')}"), meaning)
        for mark, meaning in _WORDS.items()
    )
    box = region("Every val task with every version", made, cls="scroll heat")
    return joined([tag("ul", *keys, cls="legend"), box])


def spending(view: RunView) -> Markup:
    """What each role spent in each stage, as a table and as bars."""
    groups = view.spending
    if not groups:
        return card("Spending", tag("p", "Nothing is spent yet."), id="spending")
    most = max(1, *(one.tokens for one in groups.values()))
    bars = []
    for (role, stage), one in groups.items():
        name, tokens = f"{role}, {stage}", count(one.tokens, "token")
        meter = tag("meter", value=one.tokens, max=most, aria_label=f"{name}: {tokens}")
        bars.append(tag("li", tag("span", name), meter, tag("span", tokens, cls="soft")))
    made = table(
        "Spending by role and stage", SPENDING_HEADS, spending_rows(groups, view.spent), numbers=2, sums=True
    )
    kept = "A call without a usage report stays charged at what was reserved for it."
    note = soft(f"{UNKNOWN_IS_NOT_ZERO} {kept}")
    return card("Spending", made, tag("ul", *bars, cls="meters"), note, id="spending")


def configuration(view: RunView) -> Markup:
    """Every setting of the run; credentials are never shown."""
    shown = tag("p", "The run's settings.json is not there.")
    if view.settings:
        shown = table("Every key; credentials are never shown", ("key", "value"), view.settings)
    return card("Configuration", fold("Every key", shown, key="configuration"), id="configuration")
