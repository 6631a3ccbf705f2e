"""The page Doctor: whether everything a run needs is there, and what to do where it is not."""

from __future__ import annotations

from itertools import groupby

from multidict import MultiMapping

from skillopt.config import load, packaged_names
from skillopt.dashboard._forms import box, choice, field
from skillopt.dashboard._page import ActionReply, Page, Parts, Surroundings, Visit
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
        "Checks models, logins, prices, agent programs, sandbox and data of a configuration. Nothing is"
        " written."
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
        tag(
            "div",
            tag("button", "Run the checks", name="verb", value="examine", cls="main", data_busy="Checking."),
            cls="actions",
        ),
        method="post",
    )
    return {"form": card("Examine", tag("p", about), form), "found": Markup()}


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Run the checks and show what they found."""
    name = form.get("file", "").strip() or form.get("packaged", "") or None
    subject = _subject(visit.around, name)
    found = await examine(subject, calls=bool(form.get("calls")), news=lambda title, findings: None)
    return ActionReply(parts={"found": _found(found)})


def _subject(around: Surroundings, name: str | None) -> Subject:
    try:
        resolved = load(name, flags={}, options=[], environ=around.environ, cwd=around.cwd)
    except UsageError as error:  # the machine can be examined all the same
        return Subject(resolved=None, environ=around.environ, problem=str(error))
    return Subject(resolved=resolved, environ=around.environ)


def _found(found: Examination) -> Markup:
    fixes = sum(one.state == "fix" for one in found.findings)
    cost = "unknown" if found.usd is None else f"${found.usd:.6f}"
    spent = (
        f"{found.calls} calls, {found.tokens} tokens, cost {cost}" if found.calls else "No calls were made."
    )
    said = chip(f"{fixes} must be fixed" if fixes else "Nothing must be fixed", "bad" if fixes else "good")
    areas = groupby(found.findings, key=lambda one: one.area)
    return joined(
        [
            card("Outcome", tag("div", said, soft(spent), cls="row-of")),
            *(card(area.capitalize(), tag("ul", *map(_finding, some), cls="edits")) for area, some in areas),
        ]
    )


def _finding(one: CheckResult) -> Markup:
    head = tag("div", chip(*_STATES[one.state]), tag("strong", one.name), tag("span", one.text), cls="row-of")
    return tag("li", head, verbatim(one.remedy, f"What to do about {one.name}") if one.remedy else "")


PLUGIN = Page(path="/doctor", title="Doctor", place=40, build=build, act=act, is_live=False)
