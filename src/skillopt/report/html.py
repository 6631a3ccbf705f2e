"""Writes a run's facts as one HTML page that needs nothing but itself; every word of the run is escaped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from skillopt.report import chart
from skillopt.report.escape import escape
from skillopt.runs.side_by_side import tested
from skillopt.runs.spending import HEADS, UNKNOWN_IS_NOT_ZERO, table
from skillopt.runs.values import EditFact, Facts, SkillChange, Study, Version
from skillopt.runs.words import NOT_MEASURED, SIGNS, amount, interval, money, outcome, outcomes, score
from skillopt.skill.diff import lines_of

_CELLS = {"pass": ("p", "✓"), "partial": ("m", "◐"), "fail": ("f", "✗"), "invalid": ("i", "!")}
_DIFF = {"file": "h", "where": "h", "added": "a", "removed": "d", "same": "c"}
_NOT_EVALUATED = '<td class="n">·</td>'


def page(facts: Facts) -> str:
    """The whole page."""
    here = files("skillopt.report")
    return Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"SkillOpt: {facts.benchmark}, {facts.target}"),
        style=here.joinpath("page.css").read_text(encoding="utf-8").strip(),
        header=_header(facts),
        scores=_scores(facts),
        steps=_steps(facts.changes),
        tasks=_heatmap(facts),
        skill=_skill(facts),
        spending=_spending(facts),
        configuration=_configuration(facts),
    )


def _header(facts: Facts) -> str:
    simulated = ' <span class="badge simulated">simulated</span>' if facts.simulated else ""
    sizes = ", ".join(f"{number} {name}" for name, number in facts.counts.items())
    lines = [
        f'<h1>{escape(facts.benchmark)} <span class="badge">{escape(facts.status)}</span>{simulated}</h1>',
        (
            f'<p class="soft">target {escape(facts.target)} · optimizer {escape(facts.optimizer)} · tasks:'
            f" {escape(sizes)}</p>"
        ),
        (
            f'<p class="claim">{escape(facts.claim)}</p>'
            if facts.claim
            else '<p class="claim">The run has made no claim yet.</p>'
        ),
    ]
    if facts.remarks:
        lines.append(
            f'<ul class="remarks">{"".join(f"<li>{escape(remark)}</li>" for remark in facts.remarks)}</ul>'
        )
    paid = facts.spent
    compared = facts.test.comparison
    tested = NOT_MEASURED if compared is None else f"{score(compared.before)} → {score(compared.after)}"
    gained = "" if compared is None else f"{compared.delta:+.3f}, {interval(compared)}"
    cards = [
        (f"Val score ({facts.metric}), seed → best", _arrow(facts.baseline, facts.best), facts.best_origin),
        ("Sealed test, seed → best", tested, gained),
        (
            "Steps",
            f"{len(facts.steps)} of {facts.planned}",
            outcomes(change.action for change in facts.steps),
        ),
        ("Spent", f"{amount(paid.calls)} calls", f"{amount(paid.tokens)} tokens, cost {money(paid.dollars)}"),
    ]
    boxes = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(figure)}<small>{escape(more)}</small></dd></div>"
        for name, figure, more in cards
    )
    return "\n".join([*lines, f'<dl class="cards">{"".join(boxes)}</dl>'])


def _arrow(before: float | None, after: float | None) -> str:
    return NOT_MEASURED if before is None else f"{score(before)} → {score(after)}"


def _scores(facts: Facts) -> str:
    if facts.baseline is None:
        return "<p>Nothing is measured yet.</p>"
    keys = [
        ('<path d="M0 9h28" class="val"/>', "val score of the current skill"),
        ('<path d="M0 9h28" class="train"/>', "mean of the step's train rollouts, with the skill before it"),
        *(
            (chart.sign(word, 14, 9), word)
            for word in SIGNS
            if any(outcome(change.action) == word for change in facts.changes)
        ),
        (
            '<path d="M14 3l6 12h-12z" class="test"/>',
            f"{tested(facts.test)}; the bar is the interval of the change, drawn from the seed's score",
        ),
    ]
    legend = "".join(
        f'<li><svg class="key" width="28" height="18" aria-hidden="true">{shape}</svg>{word}</li>'
        for shape, word in keys
    )
    told = ""
    compared = facts.test.comparison
    if compared is not None:
        last = "" if facts.test.final is None else f" The last skill: {score(facts.test.final)}."
        told = (
            f"<p>{tested(facts.test).capitalize()}, {compared.n} tasks ({escape(facts.test.metric)}):"
            f" {len(compared.fixed)} fixed, {len(compared.broken)} broken, p = {compared.p:.2g}"
            f" ({escape(compared.test)}).{last}</p>"
            + _names("Fixed tasks", compared.fixed)
            + _names("Broken tasks", compared.broken)
        )
    return _scrolling("Chart of scores", chart.scores(facts)) + f'<ul class="legend">{legend}</ul>{told}'


def _names(title: str, tasks: Sequence[str]) -> str:
    return _folded(f"{title}: {len(tasks)}", f"<p>{escape(', '.join(tasks))}</p>") if tasks else ""


def _steps(changes: Sequence[SkillChange]) -> str:
    if not changes:
        return "<p>No step is closed yet.</p>"
    return (
        '<p class="soft">Each step opens to its edits, their evidence and what it did to the skill.</p>'
        + "".join(map(_step, changes))
    )


_ORDINALS = ("first", "second")


def _step(change: SkillChange) -> str:
    word = outcome(change.action)
    name = change.name[0].upper() + change.name[1:]
    kind = escape(word.split()[0])
    head = (
        f'<strong>{escape(name)}</strong> {SIGNS.get(word, "")} <span class="word'
        f' {kind}">{escape(word)}</span> · {escape(change.why)}'
    )
    figures = [
        ("epoch", str(change.epoch)),
        (
            "train rollouts",
            f"{score(change.train)} over {change.train_rows} rows" if change.at == change.step else "",
        ),
        (
            "candidate on val",
            score(change.candidate) if change.bound is None else f"at most {score(change.bound)}",
        ),
        ("val rows read", f"{change.rows_used} of {change.rows_total}" if change.rows_total else ""),
        ("current skill after it", score(change.score)),
        ("most edits", "" if change.limit is None else str(change.limit)),
        ("verified", "" if change.verified else "no: too few val tasks decided"),
    ]
    told = " · ".join(f"{label}: {escape(figure)}" for label, figure in figures if figure)
    inside = [f'<p class="soft">{told}</p>']
    if change.text:
        inside.append(f"<h3>Guidance</h3><pre>{escape(change.text)}</pre>")
    if change.edits:
        inside.append(_edits(change.edits))
    if change.studies:
        inside.append(
            _folded(
                "What the analysts studied", f'<ul class="edits">{"".join(map(_study, change.studies))}</ul>'
            )
        )
    for title, lines in (
        (
            "Reflections that came to nothing",
            [f"{one.name}: {one.dropped}" for one in change.studies if one.dropped is not None],
        ),
        (
            "Tried again in parts",
            [
                f"candidate {one.id} ({len(one.edits)} edits): {one.action}, {one.why} ({one.rows} val rows)"
                for one in change.candidates[1:]
            ],
        ),
        ("Notes for the appendix", change.notes),
        ("Not measurable", [f"{task}: {kind}, {detail}" for task, kind, detail in change.invalid]),
    ):
        if lines:
            inside.append(f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    if change.diff:
        inside.append(f"<h3>What changed in the skill</h3>{diff(change.diff)}")
    if change.tried:
        inside.append(_folded("What the rewrite would have changed", diff(change.tried)))
    return _folded(head, "".join(inside))


def _edits(edits: Sequence[EditFact]) -> str:
    """Applied edits first; those that were merged into others are folded away."""
    counted = Counter(edit.state for edit in edits)
    states = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counted.items())
    shown = sorted(
        (edit for edit in edits if edit.state != "merged"), key=lambda edit: edit.state != "applied"
    )
    merged = [edit for edit in edits if edit.state == "merged"]
    listed = f'<ul class="edits">{"".join(map(_edit, shown))}</ul>' if shown else ""
    rest = (
        _folded(f"Merged into others: {len(merged)}", f'<ul class="edits">{"".join(map(_edit, merged))}</ul>')
        if merged
        else ""
    )
    return f"<h3>Edits: {escape(states)}</h3>{listed}{rest}"


def _edit(edit: EditFact) -> str:
    why = f": {escape(edit.reason)}" if edit.reason else ""
    kind = "accepted" if edit.state == "applied" else "other"
    evidence = " · ".join(f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in edit.evidence.items())
    op = f" · {escape(edit.op.replace('_', ' '))}" if edit.op else ""
    state = f'<span class="word {kind}">{escape(edit.state.replace("_", " "))}</span>{why}{op}'
    goes, lead = ("c", "after") if edit.op == "insert_after" else ("d", "old")
    parts = [(goes, lead, edit.target), ("a", "new", edit.content)]
    texts = "".join(
        f'<span class="h">{lead}</span><span class="{kind}">{escape(text)}</span>'
        for kind, lead, text in parts
        if text
    )
    shown = f"<pre>{texts}</pre>" if texts else ""
    return (
        f"<li><p>{state}</p>{shown}<p"
        f' class="soft">{escape(f"{evidence} · {edit.id}" if evidence else edit.id)}</p></li>'
    )


def _study(study: Study) -> str:
    ended = "came to nothing" if study.dropped is not None else f"{study.edits} edits"
    patterns = (
        f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in study.patterns)}</ul>" if study.patterns else ""
    )
    return (
        f"<li><p><strong>{escape(study.name)}</strong> · {ended}</p>{patterns}<p"
        f' class="soft">{escape(", ".join(study.tasks))}</p></li>'
    )


def _plain(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)


def diff(text: str) -> str:
    """A unified diff; added and removed lines keep their signs, colour only helps."""
    lines = (f'<span class="{_DIFF[kind]}">{escape(line)}</span>' for kind, line in lines_of(text))
    return f"<pre>{''.join(lines)}</pre>"


def _heatmap(facts: Facts) -> str:
    if not facts.versions:
        return "<p>No val task is measured yet.</p>"
    words = [
        ("p", "✓", "passed"),
        ("m", "◐", "partly"),
        ("f", "✗", "failed"),
        ("i", "!", "invalid: could not be measured, no score"),
        ("n", "·", "not evaluated: the verdict was fixed without it"),
    ]
    legend = "".join(
        f'<li><span class="swatch {kind}">{sign}</span>{text}</li>' for kind, sign, text in words
    )
    heads = "".join(_column(version) for version in facts.versions)
    rows = (
        "<tr><th"
        f' scope="row">{escape(task)}</th>{"".join(_cell(version, task) for version in facts.versions)}</tr>'
        for task in facts.tasks
    )
    body = "\n".join(rows)
    table = f'<table><thead><tr><th scope="col">task</th>{heads}</tr></thead><tbody>{body}</tbody></table>'
    told = (
        "One column per measured version: the seed, the candidate of each step, E for the slow update of an"
        " epoch."
    )
    return f'<p class="soft">{told}</p><ul class="legend">{legend}</ul>' + _scrolling(
        "Val tasks by version", table, "heat"
    )


def _column(version: Version) -> str:
    word = outcome(version.action)
    title = version.name if word == "baseline" else f"{version.name}: {word}"
    return (
        f'<th scope="col" title="{escape(title)}">{escape(version.short)}<br>{SIGNS.get(word, "&nbsp;")}</th>'
    )


def _cell(version: Version, task: str) -> str:
    cell = version.cells.get(task)
    if cell is None:
        return _NOT_EVALUATED
    kind, sign = _CELLS[cell.mark]
    title = f' title="{escape(cell.note)}"' if cell.note else ""
    return f'<td class="{kind}"{title}>{sign}</td>'


def _skill(facts: Facts) -> str:
    if facts.baseline is None:
        return "<p>The seed is not measured yet.</p>"
    changed = (
        _folded("Seed against best", diff(facts.best_diff))
        if facts.best_diff
        else "<p>The best skill is the seed.</p>"
    )
    return changed + _folded("The best skill", f"<pre>{escape(facts.best_skill)}</pre>")


def _spending(facts: Facts) -> str:
    if not facts.spending:
        return "<p>Nothing is spent yet.</p>"
    rows = []
    for role, stage, *figures in table(facts.spending, facts.spent):
        cells = f"<td>{escape(stage)}</td>" + "".join(f'<td class="number">{one}</td>' for one in figures)
        opening = "<tr>" if stage else '<tr class="sum">'
        rows.append(f'{opening}<th scope="row">{escape(role)}</th>{cells}</tr>')
    return (
        _scrolling("Spending by role and stage", _table(HEADS, rows, numbers_from=2))
        + f'<p class="soft">{UNKNOWN_IS_NOT_ZERO}</p>'
    )


def _configuration(facts: Facts) -> str:
    if not facts.config:
        return "<p>The run's settings.json is not there.</p>"
    rows = [
        f'<tr><th scope="row">{escape(key)}</th><td>{escape(item)}</td></tr>' for key, item in facts.config
    ]
    shown = _scrolling("Configuration", _table(("key", "value"), rows))
    return _folded("Every key; credentials are never shown", shown)


def _table(heads: Sequence[str], rows: Iterable[str], *, numbers_from: int | None = None) -> str:
    numbers = len(heads) if numbers_from is None else numbers_from
    kinds = ["" if at < numbers else ' class="number"' for at in range(len(heads))]
    columns = "".join(f'<th scope="col"{kind}>{head}</th>' for kind, head in zip(kinds, heads, strict=True))
    return f'<table class="plain"><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _folded(head: str, inside: str) -> str:
    """A part that opens on a click or with the keyboard; `head` is HTML already."""
    return f'<details><summary>{head}</summary><div class="inside">{inside}</div></details>'


def _scrolling(label: str, inside: str, kind: str = "") -> str:
    """Wide things scroll in a box of their own, which the keyboard reaches."""
    return (
        f'<div class="{f"scroll {kind}".strip()}" role="region" aria-label="{label}"'
        f' tabindex="0">{inside}</div>'
    )
