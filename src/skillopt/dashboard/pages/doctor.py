"""The page Doctor: whether everything a run needs is there, and what to do where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from multidict import MultiMapping

from skillopt.config import load, packaged_names, refuse_foreign
from skillopt.dashboard._forms import actions, box, button, choice, field
from skillopt.dashboard._page import ActionReply, Checkup, Page, Parts, Visit
from skillopt.doctor import CheckResult, Examination, Subject, examine
from skillopt.errors import UsageError
from skillopt.render.markup import Markup, Tone, card, chip, joined, soft, tag, verbatim

_STATES: dict[str, tuple[str, Tone]] = {
    "fine": ("✓ fine", "good"),
    "note": ("! note", "warn"),
    "fix": ("✗ must be fixed", "bad"),
    "skipped": ("– skipped", "plain"),
}


async def build(visit: Visit) -> Parts:
    """The form, and the place for what is found."""
    names = {"": "(none)", **{name: name for name in packaged_names()}}
    about = (
        "Checks models, logins, prices, programs, sandbox and data of a configuration. Nothing is written."
    )
    form = tag(
        "form",
        tag(
            "div",
            choice("packaged", "Packaged config", names, ""),
            field("file", "Or a config file, or a folder with train.yaml"),
            cls="fields",
        ),
        box("calls", "Ask each model a few tiny questions; this may cost a little"),
        actions(button("examine", "Run the checks", main=True)),
        method="post",
    )
    return {"form": card("Examine", tag("p", about), form), "found": _found(visit.around.checkup)}


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Begin the checks; the page shows each as it ends."""
    checkup = visit.around.checkup
    if checkup.is_at_work:
        raise UsageError("The checks are running already; what they find is shown below.")
    name = form.get("file", "").strip() or form.get("packaged", "") or None
    around = visit.around
    try:
        resolved = load(name, flags={}, options=[], environ=around.environ, cwd=around.cwd)
        refuse_foreign(resolved)
        subject = Subject(resolved=resolved, environ=around.environ)
    except UsageError as error:  # the machine can be examined all the same
        subject = Subject(resolved=None, environ=around.environ, problem=str(error))
    checkup.under_way.clear()
    checkup.found.clear()

    def news(title: str, findings: Sequence[CheckResult] | None) -> None:
        if findings is None:
            checkup.under_way.append(title)
        else:
            checkup.under_way.remove(title)
            checkup.found.extend(findings)

    checkup.ended = asyncio.create_task(examine(subject, calls=bool(form.get("calls")), news=news))
    return ActionReply(parts={"found": _found(checkup)})


def _found(checkup: Checkup) -> Markup:
    if checkup.ended is None:
        return Markup()
    found: Sequence[CheckResult] = checkup.found
    if checkup.is_at_work:
        told = f"Checking: {', '.join(checkup.under_way) or 'about to begin'}."
        parts = [card("Outcome", tag("p", told, role="status"))]
    else:
        parts, found = [_outcome(checkup.ended.result())], checkup.ended.result().findings
    for area in dict.fromkeys(one.area for one in found):
        some = (_finding(one) for one in found if one.area == area)
        parts.append(card(area.capitalize(), tag("ul", *some, cls="edits")))
    return joined(parts)


def _outcome(found: Examination) -> Markup:
    fixes = sum(one.state == "fix" for one in found.findings)
    cost = "unknown" if found.usd is None else f"${found.usd:.6f}"
    spent = (
        f"{found.calls} calls, {found.tokens} tokens, cost {cost}" if found.calls else "No calls were made."
    )
    said = chip(f"{fixes} must be fixed" if fixes else "Nothing must be fixed", "bad" if fixes else "good")
    return card("Outcome", tag("div", said, soft(spent), cls="row-of"))


def _finding(one: CheckResult) -> Markup:
    head = tag("div", chip(*_STATES[one.state]), tag("strong", one.name), tag("span", one.text), cls="row-of")
    return tag("li", head, verbatim(one.remedy, f"What to do about {one.name}") if one.remedy else "")


PLUGIN = Page(path="/doctor", title="Doctor", place=40, build=build, act=act)
