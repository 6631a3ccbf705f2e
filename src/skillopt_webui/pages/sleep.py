"""The page Sleep: what a night proposes, answers before and after, and adopt, undo or discard by edit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from multidict import MultiMapping

from skillopt.errors import UsageError
from skillopt.runs.words import count, money, score
from skillopt_sleep import NightContext, open_context
from skillopt_sleep.adoption import Adoption, AdoptionResult
from skillopt_sleep.judgement import Judgement
from skillopt_sleep.proposal import Proposal, ProposedEdit, ProposedFile
from skillopt_sleep.store import StagedProposals
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui.render.markup import (
    Markup,
    actions,
    button,
    card,
    chip,
    diff,
    empty,
    hidden,
    joined,
    pairs,
    sentence,
    soft,
    table,
    tag,
    trouble,
)

_VERBS = {"adopt": "Adopted", "undo": "Undone", "discard": "Discarded"}
_SHOWN = 20
_ADOPT = "The live files change now. What was there before is kept, and undo puts it back byte for byte."
_UNDO = (
    "The live files get back, byte for byte, what they held before. A file that was edited since is refused."
)


async def build(visit: Visit) -> Parts:
    """The proposal that is decided on first, then the others and how the nights ended."""
    nights = _context(visit)
    adoption = _adoption(nights)
    status = await asyncio.to_thread(adoption.status)
    wanted = visit.query.get("proposal")
    if wanted is not None and all(one.id != wanted for one in status.proposals):
        raise UsageError(f"There is no proposal {wanted[:40]!r} here that is yours.")
    shown = wanted or next((one.id for one in status.proposals), None)
    review = [_proposal(one, adoption.roots) for one in status.proposals if one.id == shown]
    return {
        "review": joined(review),
        "proposals": _list(visit, status, shown),
        "nights": _nights(nights),
    }


def _context(visit: Visit) -> NightContext:
    return open_context({}, home=Path.home(), cwd=visit.app.cwd, environ=visit.app.environ)


def _adoption(nights: NightContext) -> Adoption:
    return nights.adoption(lambda: datetime.now(timezone.utc))


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Adopt, discard or undo. All of it goes through `Adoption`, which checks everything again."""
    adoption, id = _adoption(_context(visit)), form.get("proposal", "")
    edits = [int(one) for one in form.getall("edit", []) if one.isdecimal()]
    verbs: dict[str, Callable[[], AdoptionResult]] = {
        "adopt": lambda: adoption.adopt(id, edits=edits),
        "discard": lambda: adoption.discard(id, edits=edits),
        "undo": lambda: adoption.undo(id),
    }
    verb = form.get("verb", "")
    if verb not in verbs:
        raise UsageError(f"There is no verb {verb[:40]!r} here.")
    if verb != "undo" and not edits:
        raise UsageError("No edit is chosen. Tick those that are meant.")
    # In a thread: it waits for another process that adopts at this moment.
    return ActionReply(note=_note(await asyncio.to_thread(verbs[verb])))


def _note(done: AdoptionResult) -> str:
    action, edits = done.change.action, sorted(done.change.taken)
    named = "edit" if len(edits) == 1 else "edits"
    parts = [*done.recovered, f"{_VERBS[action]}: {named} {', '.join(map(str, edits))}."]
    parts += [f"Wrote {path}." for path in done.change.written]
    parts += [f"{finding}." for finding in done.findings if action == "adopt"]
    left = ", ".join(map(str, done.left))
    parts += [f"Left, flagged or not shown to help: {left}."] if left else []
    parts += [
        f"Left {name} as it is: somebody else changed it at the last moment." for name in done.change.left_out
    ]
    return " ".join(parts)


def _proposal(one: Proposal, roots: Sequence[Path]) -> Markup:
    """Request, answer before, answer after, difference, and the decision, in this order."""
    chips = [chip(one.state), *([chip("simulated")] if one.simulated else [])]
    made = tag("time", f"{one.created:%Y-%m-%d %H:%M} UTC", datetime=one.created.isoformat())
    about = [
        ("Project", one.project),
        ("Made", made),
        ("Night", str(one.night)),
        ("Cost", str(one.cost)),
    ]
    targets = [part for target in one.targets for part in _target(target, *one.on_disk(target, roots), one)]
    return card(
        f"Proposal {one.id}",
        tag("div", *chips, cls="row-of"),
        tag("p", one.note) if one.note else "",
        pairs(about),
        *map(soft, one.notes),
        tag("form", *targets, _buttons(one), method="post"),
    )


def _target(target: ProposedFile, disk: str, note: str, one: Proposal) -> Iterator[Markup]:
    what = "The skill" if target.before is not None else "A new skill"
    if target.kind == "memory":
        what = "Our block in the memory file"
    yield tag("h3", target.name)
    yield soft(f"{what} {target.path}; on disk is the {disk} text. {note}".rstrip())
    yield from drawn_judgement(target.judgement)
    for edit in target.edits:
        yield _edit(target, edit, one.decided[edit.id], is_ticked=edit.id in one.free_to_adopt)


def drawn_judgement(judged: Judgement) -> Iterator[Markup]:
    """What the gate and the held-out tasks say, with the answers before and after."""
    chips = [chip(judged.action, "plain"), chip(judged.significance)]
    if not judged.gate_on:
        chips.append(chip("the gate was switched off", "warn"))
    if judged.before is not None or judged.after is not None:
        scores = f"{score(judged.before)} to {score(judged.after)}"
        chips.append(
            tag("span", f"Held-out {judged.metric or 'score'} {scores}, policy {judged.policy or 'strict'}")
        )
    yield tag("div", *chips, cls="row-of")
    yield tag("p", f"Held-out tasks: {judged.finding}.")
    yield tag("p", judged.why)
    if judged.example is not None:
        boxes = (tag("div", tag("strong", title), tag("pre", text)) for title, text in judged.example.parts())
        yield tag("div", *boxes, cls="sides")
    if judged.pairs:
        rows = [(pair.title or pair.task, score(pair.before), score(pair.after)) for pair in judged.pairs]
        yield table("Held-out tasks", ("held-out task", "before", "after"), rows, numbers=1)


def _edit(target: ProposedFile, edit: ProposedEdit, decided: str, *, is_ticked: bool) -> Markup:
    box = tag(
        "input",
        type="checkbox",
        name="edit",
        value=edit.id,
        checked=is_ticked,
        disabled=decided != "pending",
        aria_label=f"Choose edit {edit.id}",
    )
    chips = [chip(decided), *([] if edit.is_measured else [chip("not measured", "bad")])]
    chips += [chip("flagged", "bad")] if edit.flags else []
    needs = ", ".join(map(str, edit.needs))
    return tag(
        "article",
        tag("div", box, tag("h3", f"Edit {edit.id}"), *chips, cls="row-of"),
        tag("p", f"Stands inside edit {needs}, and goes only together with it.") if needs else "",
        *(tag("p", f"{flag.reason}: ", tag("code", flag.quoted), cls="note") for flag in edit.flags),
        *_evidence(edit),
        diff(target.diff((edit.id, *edit.needs), over=edit.needs), f"What edit {edit.id} changes"),
        aria_label=f"Edit {edit.id}",
    )


def _evidence(edit: ProposedEdit) -> Iterator[Markup]:
    for one in edit.evidence:
        yield tag("p", one.reason or "No reason was given.")
        yield from (tag("p", f"You said: {words}") for words in one.quotes)
        seen = [
            f"from step {one.place}" if one.place else "",
            f"tasks {', '.join(one.tasks[:5])}" if one.tasks else "",
            count(len(one.sessions), "session") if one.sessions else "",
        ]
        if any(seen):
            yield soft("Evidence: " + "; ".join(filter(None, seen)) + ".")


def _buttons(one: Proposal) -> Markup:
    states = set(one.decided.values())
    asked = [
        ("pending", "adopt", "Adopt the chosen edits", _ADOPT),
        (
            "pending",
            "discard",
            "Discard the chosen edits",
            "No live file is touched; the next night is told.",
        ),
        ("adopted", "undo", "Undo the last adoption", _UNDO),
    ]
    buttons = (
        button(verb, name, f"{name}?", detail, verb.capitalize(), main=verb == "adopt")
        for state, verb, name, detail in asked
        if state in states
    )
    return actions(hidden("proposal", one.id), *buttons)


def _list(visit: Visit, status: StagedProposals, shown: str | None) -> Markup:
    none = "No proposal is staged. A night makes one when a change holds up on tasks it was not made from."
    rows = []
    for one in status.proposals[:_SHOWN]:
        edits = ", ".join(f"{number} {word}" for word, number in Counter(one.decided.values()).items())
        id = one.id
        is_shown = "true" if id == shown else None
        link = tag("a", id, href=visit.url("sleep", proposal=id), aria_current=is_shown)
        rows.append((link, chip(one.state), edits, ", ".join(target.name for target in one.targets)))
    listed = table("All proposals", ("proposal", "state", "edits", "targets"), rows) if rows else None
    refused = (trouble(f"Refused {id}: {why}") for id, why in status.refused.items())
    return card("Proposals", listed or empty(none), *refused)


def _nights(nights: NightContext) -> Markup:
    kept = nights.kept.load()
    parts = [soft(f"Project {nights.project}: {count(kept.night, 'night')} so far.")]
    if kept.open is not None:
        parts.append(sentence(f"Night {kept.open} is open: `skillopt sleep run` goes on with it."))
    ended = nights.kept.ended(_SHOWN)
    if not ended:
        none = (
            "No night has ended yet. `skillopt sleep dry-run` says what one would work on and cost;"
            " `skillopt sleep run` runs it."
        )
        return card("Nights", *parts, sentence(none, cls="empty"))
    heads = ("night", "ended", "outcome", "sessions", "tasks", "cost")
    rows: list[Sequence[str]] = [
        (
            str(one.number),
            tag("time", f"{one.ended:%Y-%m-%d %H:%M}", datetime=one.ended.isoformat(), data_short="1"),
            one.outcome,
            str(one.sessions),
            str(one.tasks),
            money(one.cost.dollars),
        )
        for one in reversed(ended)
        if one.ended is not None
    ]
    return card("Nights", *parts, table("How nights ended", heads, rows, numbers=3))


PAGE = Page(path="/sleep", title="Sleep", place=30, build=build, act=act)
