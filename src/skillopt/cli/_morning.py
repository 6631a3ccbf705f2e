"""`skillopt sleep` without a command: what waits for a decision, in the person's own words, and asking."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from skillopt.cli import _sleep
from skillopt.cli import _sleep_show as show
from skillopt.cli._console import echo
from skillopt.errors import UsageError
from skillopt.runs import words
from skillopt_sleep.proposal_page import flag_lines, plain

if TYPE_CHECKING:
    from skillopt_sleep.adoption import Adoption, AdoptionResult
    from skillopt_sleep.proposal import Proposal, ProposedFile

_ASKED = "adopt what is shown to help, asked about the rest (a), some by number (s), later (l), no (n)"
_LINES = 12
"""Lines of an answer that are shown."""


def morning() -> None:
    """Show the newest proposal of the project that waits; ask for a decision where somebody can answer."""
    context = _sleep.context_of({})
    adoption = context.adoption(_sleep.utc_now)
    mine = [one for one in adoption.status().proposals if one.project == str(context.project)]
    waiting = next((one for one in mine if one.pending), None)
    if waiting is None:
        last = "".join(f" Last night: {plain(night.outcome)}." for night in context.kept.ended(1))
        echo(f"Nothing waits for you.{last}")
        echo("`skillopt sleep run` is a night, `skillopt sleep --help` names all commands.")
        return
    for line in _lines_of(waiting):
        echo(line)
    show.diff(adoption.diff(waiting.id))
    for finding in adoption.findings(waiting.id):
        echo(plain(finding))
    if at_terminal():
        _decide(adoption, waiting)
    else:
        echo(
            "`skillopt sleep adopt` takes what is shown to help and not flagged, `--edit N` one edit,"
            " `discard` none of it."
        )


def at_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def asked(adoption: Adoption, id: str | None, targets: Sequence[str] = ()) -> list[int]:
    """The edits to adopt: those that are shown to help, and of the other open ones those that the person says
    yes to. What is flagged is only named, as it goes by its number alone.
    """
    opened = adoption.opened(id)
    chosen = opened.chosen(None, targets, ())
    taken = sorted(chosen & opened.free_to_adopt)
    for target in opened.touched(chosen):
        for edit in target.edits:
            if edit.id not in chosen or edit.id in taken or opened.is_bare_page(edit.id):
                continue
            echo(f"edit {edit.id}: {_added(target, edit.id)}")
            if edit.id in opened.flagged:
                echo("\n".join([*flag_lines(edit), f"  It goes by its number alone: --edit {edit.id}"]))
                continue
            echo(f"  {plain(' '.join(opened.findings([edit.id])))}")
            taken += [edit.id] if typer.confirm("Nothing shows that it helps. Adopt it?") else []
    return taken


def _lines_of(one: Proposal) -> Iterator[str]:
    """What was learned and from which words, an answer before and after, and what it took."""
    yield f"Proposal {one.id} of {one.created:%Y-%m-%d %H:%M} UTC, {one.cost}"
    for target in one.targets:
        judged = target.judgement
        yield ""
        if judged.action == "suggestion":
            yield f"{plain(target.name)}: {plain(judged.why)}"
        else:
            scores = f"{words.score(judged.before)} to {words.score(judged.after)}"
            yield f"{plain(target.name)}: held-out {scores}; {judged.finding}. {plain(judged.why)}"
        yield from _learned(target, one)
        if judged.example is not None:
            for title, text in judged.example.parts():
                yield f"  {title}:"
                yield from (f"    {plain(line)}" for line in text.splitlines()[:_LINES])
    yield ""


def _learned(target: ProposedFile, one: Proposal) -> Iterator[str]:
    for edit in target.edits:
        decided = one.decided[edit.id]
        mark = ("" if edit.is_measured else ", not measured") + (", flagged" if edit.flags else "")
        yield f"  edit {edit.id} ({decided}{mark}): {_added(target, edit.id)}"
        yield from (f"    {line}" for line in flag_lines(edit))
        for quote in dict.fromkeys(quote for evidence in edit.evidence for quote in evidence.quotes):
            yield f"    you said: {plain(quote)}"


def _added(target: ProposedFile, edit: int) -> str:
    return plain(" ".join(target.merged.part(edit)[1].split()))


def _decide(adoption: Adoption, waiting: Proposal) -> None:
    id = waiting.id
    answer = typer.prompt(_ASKED, default="l").strip().lower()[:1]
    done: AdoptionResult | None = None
    if answer == "a":
        edits = asked(adoption, id)
        done = adoption.adopt(id, edits=edits) if edits else None
    elif answer == "s":
        numbers = typer.prompt("numbers of the edits, with spaces").replace(",", " ").split()
        if not all(number.isdecimal() for number in numbers):
            raise UsageError("Edits are named by their numbers, such as 1 3. Nothing was changed.")
        done = adoption.adopt(id, edits=[int(number) for number in numbers])
    elif answer == "n":
        done = adoption.discard(id)
    if done is None:
        echo("Later: `skillopt sleep` shows it again.")
    else:
        for line in show.done(show.done_json(done)):
            echo(line)
