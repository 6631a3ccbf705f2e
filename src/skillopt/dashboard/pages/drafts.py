"""The page Drafts: tasks that a model wrote from a skill, to be kept, corrected or dropped one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multidict import MultiMapping

from skillopt.build.drafting import as_kept, draft_files, is_draft, read_rows, write_rows
from skillopt.dashboard._forms import actions, button, hidden
from skillopt.dashboard._page import ActionReply, Page, Parts, Visit
from skillopt.errors import UsageError
from skillopt.render.markup import Markup, card, empty, sentence, soft, tag
from skillopt.runs.words import count
from skillopt.transcripts.records import decoded

_ABOUT = (
    "`skillopt tasks draft SKILL` lets the optimizer model write tasks with checks from a skill alone."
    " Nothing is trained on them before you keep them; correct here what is not as you mean it."
)


async def build(visit: Visit) -> Parts:
    """Every draft below the working folder, a card each."""
    parts: dict[str, Markup] = {"about": sentence(_ABOUT)}
    for name, file in _files(visit).items():
        rows = read_rows(file)
        drafts = [row for row in rows if is_draft(row)]
        told = f"{count(len(drafts), 'draft')}, {count(len(rows) - len(drafts), 'task')} to train on."
        parts[f"file-{_digest(name)}"] = tag("section", tag("h2", name), soft(told), aria_label=name)
        parts |= {_part(name, row): _card(name, row) for row in drafts}
    if len(parts) == 1:
        parts["none"] = empty(f"No draft waits in {visit.around.cwd}.")
    return parts


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Keep a draft as it stands in its form, or drop it."""
    name, verb, part = form.get("file", ""), form.get("verb"), form.get("draft", "")
    file = _files(visit).get(name)
    rows = [] if file is None else read_rows(file)
    at = next((at for at, row in enumerate(rows) if is_draft(row) and _part(name, row) == part), None)
    if file is None or at is None or verb not in ("keep", "drop"):
        raise UsageError("This draft is not there any more. Load the page again to see what is.")
    id = str(rows[at].get("id", ""))
    if verb == "drop":
        write_rows(file, [*rows[:at], *rows[at + 1 :]])
        return ActionReply(parts={part: tag("p", f"Dropped: {id}", cls="note")})
    kept = as_kept(rows[at]) | {"prompt": form.get("prompt", ""), "checks": _checks(form.get("checks", ""))}
    if not kept["prompt"].strip():
        raise UsageError(f"{id}: the request is empty. Write one, or drop the draft.")
    write_rows(file, [*rows[:at], kept, *rows[at + 1 :]])
    return ActionReply(parts={part: tag("p", f"Kept: {id}", cls="note")})


def _files(visit: Visit) -> dict[str, Path]:
    """By their name from the working folder: an address can name no other."""
    return {str(file.relative_to(visit.around.cwd)): file for file in draft_files(visit.around.cwd)}


def _checks(text: str) -> list[Any]:
    checks = decoded(text)
    if not isinstance(checks, list) or not checks:
        raise UsageError('Checks are a JSON list such as [{"op": "contains", "arg": "..."}].')
    return checks


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _part(name: str, row: Mapping[str, Any]) -> str:
    """The name of a draft's part: a row that somebody changed since has another."""
    return f"draft-{_digest(name + json.dumps(row, sort_keys=True))}"


def _card(name: str, row: Mapping[str, Any]) -> Markup:
    checks = json.dumps(row.get("checks") or [], ensure_ascii=False, indent=1)
    fields = (("prompt", "Request", str(row.get("prompt", ""))), ("checks", "Checks, a JSON list", checks))
    return card(
        str(row.get("id", "")),
        tag(
            "form",
            hidden("file", name),
            hidden("draft", _part(name, row)),
            *(
                tag("label", label, tag("textarea", text, name=key, rows=min(8, 2 + text.count("\n"))))
                for key, label, text in fields
            ),
            actions(button("keep", "Keep", main=True), button("drop", "Drop")),
            method="post",
        ),
    )


PLUGIN = Page(path="/drafts", title="Drafts", place=25, build=build, act=act, is_live=False)
