"""A proposal as the Markdown page a person reads; nothing a transcript said can pass for the page itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from skillopt_sleep.judgement import Judgement
from skillopt_sleep.proposal import Proposal, ProposedEdit, ProposedFile

_LONGEST = 300
_NAMED = 5
"""Tasks and sessions whose ids stand with an edit."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&])")


def page(proposal: Proposal) -> str:
    """The proposal as Markdown: verdict, paired tasks, cost, each edit with its evidence and effect."""
    return "\n\n".join(_page(proposal)) + "\n"


def plain(text: str) -> str:
    """A text on one line, without control characters and cut after a few hundred: safe in a terminal."""
    shown = "".join(" " if _is_control(char) else char for char in text[: 4 * _LONGEST])
    shown = " ".join(shown.split())
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."


def flag_lines(edit: ProposedEdit) -> Iterator[str]:
    """Why an edit is flagged, a line each, with the words that are meant."""
    yield from (plain(f"FLAGGED, {flag}") for flag in edit.flags)


def _page(proposal: Proposal) -> Iterator[str]:
    """The blocks of the page, between which stands an empty line."""
    yield f"# Proposal {proposal.id}"
    if proposal.simulated:
        yield "**Simulated**: this night ran in the simulated world, not with a real agent."
    facts = [
        f"- project: {_inline(proposal.project)}",
        f"- made: {proposal.created:%Y-%m-%d %H:%M} UTC, {_inline(proposal.night)}",
        f"- cost: {proposal.cost}",
    ]
    yield "\n".join([*facts, *(f"- {_inline(note)}" for note in proposal.notes)])
    for target in proposal.targets:
        yield from _target(target)
    yield (
        f"Nothing has changed yet. `skillopt sleep adopt {proposal.id}` takes what is shown to help and not"
        f" flagged, {len(proposal.free_to_adopt)} of {len(proposal.edits)}, and asks about the rest; `--edit"
        " N` takes one, `discard` none."
    )


def _target(target: ProposedFile) -> Iterator[str]:
    yield f"## {_inline(target.name)}"
    what = "our block in the memory file" if target.kind == "memory" else "the skill"
    yield f"{'A new file' if target.before is None else f'Changes {what}'}: {_inline(target.path)}"
    yield from _judgement(target.judgement)
    for edit in target.edits:
        yield f"### Edit {edit.id}"
        if not edit.is_measured:
            yield f"**Unmeasured suggestion**: adopted only by its number, `--edit {edit.id}`."
        if edit.flags:
            yield f"**Flagged**: adopted only by its number, `--edit {edit.id}`. Read these words first:"
            yield "\n".join(f"- {flag.reason}: {_code(flag.quoted)}" for flag in edit.flags)
        yield "\n".join(_evidence(edit))
        yield _fenced(target.diff((edit.id, *edit.needs), over=edit.needs))
    if len(target.edits) > 1:
        yield "### All of it"
        yield _fenced(target.diff())


def _judgement(judgement: Judgement) -> Iterator[str]:
    measured = ""
    if judgement.before is not None or judgement.after is not None:
        scores = f"{_score(judgement.before)} -> {_score(judgement.after)}"
        policy = _inline(judgement.policy or "strict")
        measured = f" Held-out {judgement.metric or 'score'} {scores}, policy {policy}."
    why = _inline(judgement.why)
    end = "" if not why or why.endswith(".") else "."
    yield f"Verdict: **{_inline(judgement.action)}**. {why}{end}{measured}"
    doubt = "" if judgement.significance == "real" else " Read it as an idea: that it helps is not shown."
    yield f"What the held-out tasks say: **{_inline(judgement.finding)}**.{doubt}"
    if not judgement.gate_on:
        yield "**The gate was switched off**: this was taken whatever the measurement said."
    if judgement.example is not None:
        for title, text in judgement.example.parts():
            yield f"{title}:"
            yield _fenced(text, "")
    rows = ["| held-out task | before | after | |", "|---|---|---|---|"]
    for pair in judgement.pairs:
        moved = "better" if (pair.gain or 0) > 0 else "worse" if (pair.gain or 0) < 0 else ""
        named = f"{pair.title} ({pair.task})" if pair.title else pair.task
        rows.append(f"| {_inline(named)} | {_score(pair.before)} | {_score(pair.after)} | {moved} |")
    if judgement.pairs:
        yield "\n".join(rows)


def _evidence(edit: ProposedEdit) -> Iterator[str]:
    if edit.needs:
        yield f"- stands inside edit {', '.join(map(str, edit.needs))}, and goes only together with it"
    for evidence in edit.evidence:
        seen = [f"from step {_inline(evidence.place)}"] if evidence.place else []
        for what, names in (("failed task", evidence.tasks), ("session", evidence.sessions)):
            if names:
                more = ", ..." if len(names) > _NAMED else ""
                named = f"({_inline(', '.join(names[:_NAMED]))}{more})"
                seen.append(f"{len(names)} {what}{'s' if len(names) > 1 else ''} {named}")
        sources = "; ".join(seen)
        yield f"- {_inline(evidence.reason) or 'no reason was given'}{f' ({sources})' if sources else ''}"
        yield from (f"  - you said: {_inline(words)}" for words in evidence.quotes)


def _fenced(text: str, language: str = "diff") -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    lines = (
        "".join("\ufffd" if _is_control(char) and char not in "\t\r" else char for char in line)
        for line in text.removesuffix("\n").split("\n")
    )
    return "\n".join([f"{fence}{language}", *lines, fence])


def _code(text: str) -> str:
    fence = "`" * max(1, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence} {plain(text)} {fence}"


def _score(score: float | None) -> str:
    return "not measured" if score is None else f"{score:.3f}"


def _inline(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", plain(text))


def _is_control(char: str) -> bool:
    # Cf are the invisible ones, such as marks of direction; U+2028 and U+2029 are Zl and Zp.
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")
