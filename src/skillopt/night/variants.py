"""Decides which variant of a task may be learned from: one that its parent's measure fits, and that can never
be a held-out request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from skillopt.errors import ScoringError
from skillopt.night._demands import demands
from skillopt.night._episodes import episodes
from skillopt.night._kinds import normal
from skillopt.night.tonight import Group, PinnedTask
from skillopt.redact import redact_transcript
from skillopt.tasks.scorers._given import kept_rules, read_rules
from skillopt.tasks.scorers._rules import Rule, Work
from skillopt.tasks.task import Split
from skillopt.transcripts.session import Session

LONGEST = 4_000
_LONGEST_ANSWER = 20_000
_TRIED = 4
_HARMLESS = frozenset({"not_contains", "no_refusal", "tool_called"})
"""Checks that hold whatever the answer is about, beside those of mere form."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|`([^`\n]{1,300})`|(?<!\w)'([^'\n]{1,300})'(?!\w)"
)
_NAME = re.compile(r"(?<![.!?:\n]\s)(?<!^)\b(?!I\b)[A-Z][\w'-]*", re.MULTILINE)


def is_about_form(task: PinnedTask) -> bool:
    """Whether the task's measure looks at the form of an answer only, so that another subject can be measured
    by it too.
    """
    return not task.reference.get("rubric") and all(
        rule.is_shape or rule.name in _HARMLESS for rule in _rules(task)
    )


async def with_accepted(group: Group, sessions: Iterable[Session]) -> Group:
    """The group whose train tasks carry an answer that the person was content with and that their measure
    passes, where there is one.
    """
    said = {f"{session.source}:{session.id}": session for session in sessions}
    tasks = []
    for task in group.tasks:
        found = ""
        if task.split == "train" and not task.accepted:
            known = [said[name] for name in task.sessions if name in said]
            answers = [
                answer for session in known for episode in episodes(session) for answer in episode.accepted
            ]
            for answer in answers[-_TRIED:]:
                found = (
                    answer
                    if len(answer) <= _LONGEST_ANSWER and await _passes(task, _rules(task), answer)
                    else found
                )
        tasks.append(task.model_copy(update={"accepted": found}) if found else task)
    return group.model_copy(update={"tasks": tuple(tasks)})


async def kept_variants(
    parent: PinnedTask,
    requests: Sequence[str],
    *,
    most: int,
    taken: set[str],
    held_out: Collection[str],
    split_of: Callable[[str], Split],
    dropped: Counter[str],
) -> list[PinnedTask]:
    """The first `most` variants that fit, as train tasks; the others are counted by reason.

    `taken` are the normal forms of requests that are learned from already and grows by what is kept;
    `held_out` those of requests that decide, tonight or in any night before. A form that would be held out if
    a person ever asked so is no lesson either.
    """
    kept: list[PinnedTask] = []
    for text in requests:
        request = redact_transcript(text).strip()
        form = normal(request)
        if len(kept) == most:
            dropped["more than were wanted"] += 1
        elif not form or len(request) > LONGEST:
            dropped["empty or too long"] += 1
        elif form in held_out:
            dropped["equal to a held-out request"] += 1
        elif split_of(form) != "train":
            dropped["on the held-out side by its hash"] += 1
        elif form in taken:
            dropped["equal to another request"] += 1
        elif trouble := await _misfit(parent, request):
            dropped[trouble] += 1
        else:
            taken.add(form)
            kept.append(_variant(parent, request, len(kept) + 1))
    return kept


async def _misfit(parent: PinnedTask, request: str) -> str:
    """Why the parent's measure does not fit the variant; empty where it does."""
    asked = parent.prompt
    if Counter(_NUMBER.findall(asked)) != Counter(_NUMBER.findall(request)) or _quoted(asked) != _quoted(
        request
    ):
        return "changes numbers or quoted words"
    if set(demands(request)) != set(demands(asked)):
        return "makes other demands than are measured"
    anchors = _phrases(parent)
    if not is_about_form(parent):
        anchors |= {name.casefold() for name in _NAME.findall(asked)}
    if any(anchor not in request.casefold() for anchor in anchors):
        return "leaves out what the answer depends on"
    if parent.accepted and not await _passes(parent, (*_rules(parent), *demands(request)), parent.accepted):
        return "an accepted answer would fail"
    return ""


async def _passes(task: PinnedTask, rules: Sequence[Rule], answer: str) -> bool:
    try:
        return all(
            await kept_rules(list(dict.fromkeys(rules)), Work(answer=answer), whose=f"task {task.id!r}")
        )
    except ScoringError:  # a pattern that never ends proves nothing
        return False


def _phrases(parent: PinnedTask) -> set[str]:
    """Those arguments of the checks that the request itself names."""
    every = {rule.arg.casefold() for rule in _rules(parent) if isinstance(rule.arg, str)}
    return {phrase for phrase in every if phrase in parent.prompt.casefold()}


def _quoted(text: str) -> Counter[str]:
    return Counter("".join(parts) for parts in _QUOTED.findall(text))


def _rules(task: PinnedTask) -> tuple[Rule, ...]:
    return read_rules(list(task.reference.get("checks") or []))[0]


def _variant(parent: PinnedTask, request: str, number: int) -> PinnedTask:
    return parent.model_copy(
        update={
            "id": f"{parent.id}_dream{number}",
            "prompt": request,
            "split": "train",
            "origin": "dream",
            "parent": parent.id,
        }
    )
