"""Dreams: variants of train tasks that the optimizer writes; none can be a held-out request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from math import ceil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skillopt.aio import together
from skillopt.build import Job, open_run
from skillopt.errors import BudgetSpent, ScoringError
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.night._ask import ask, messages_of, tagged
from skillopt.night.demands import demands
from skillopt.night.job import cost_of
from skillopt.night.kinds import normal
from skillopt.night.plan import Dreams, NightTarget
from skillopt.night.settings import NightSettings
from skillopt.night.tasks import NightTask, split_of
from skillopt.redact import redact_transcript
from skillopt.tasks.scorers import CheckedWork, Rule, kept_rules

SHARE = 4
"""The part (one in so many) of the remaining allowance that dreams may use."""
_BATCH = 8
"""Tasks of one question."""
_LONGEST = 4_000
_SHOWN = 2_000
_HARMLESS = frozenset({"not_contains", "no_refusal", "tool_called"})
"""Checks that hold whatever the answer is about, beside those of mere form."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|`([^`\n]{1,300})`|(?<!\w)'([^'\n]{1,300})'(?!\w)"
)
_NAME = re.compile(r"(?<![.!?:\n]\s)(?<!^)\b(?!I\b)[A-Z][\w'-]*", re.MULTILINE)


class _Variants(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task: int
    requests: list[str] = Field(default_factory=list, max_length=100)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    variants: list[_Variants]


async def with_dreams(
    target: NightTarget, job: Job, folder: Path, *, settings: NightSettings, held_out: Collection[str]
) -> NightTarget:
    """The target with up to `dream_factor` variants of each of its train tasks, all of them train tasks; and
    what became of the others.

    A stopped night finds its replies in `folder` again. Where the allowance ends, what was answered by then
    is used. `held_out` are normal forms of requests that decided in earlier nights or decide tonight, for
    whichever skill.
    """
    parents = [task for task in target.tasks if task.split == "train" and task.origin == "real"]
    # Some fall to the held-out side by their hash.
    wanted = ceil(settings.dream_factor / max(0.1, 1 - settings.val - settings.test_fraction))
    batches = [parents[at : at + _BATCH] for at in range(0, len(parents), _BATCH)]
    async with open_run(job, folder, {"dreams": 1, "wanted": wanted, **job.identity()}) as opened:
        model = opened.models.of("optimizer", job.optimizer)
        try:
            replies = await together(
                *(_asked(model, batch, wanted, job.optimizer.max_tokens) for batch in batches)
            )
        finally:
            await opened.drain()  # what is paid is kept
        cost = cost_of(opened)
    held_out = {*held_out, *(normal(task.prompt) for task in target.tasks if task.split != "train")}
    taken = {normal(task.prompt) for task in target.tasks}
    dropped: Counter[str] = Counter()
    dreams: list[NightTask] = []
    for batch, reply in zip(batches, replies, strict=True):
        if isinstance(reply, str):
            dropped[reply] += len(batch)
            continue
        for number, parent in enumerate(batch, start=1):
            requests = [request for one in reply.variants if one.task == number for request in one.requests]
            dreams += await kept_variants(
                parent, requests, settings=settings, taken=taken, held_out=held_out, dropped=dropped
            )
    told = Dreams(kept=len(dreams), of=len(parents), dropped=dict(sorted(dropped.items())), cost=cost)
    return target.model_copy(update={"tasks": (*target.tasks, *dreams), "dreams": told})


async def kept_variants(
    parent: NightTask,
    requests: Sequence[str],
    *,
    settings: NightSettings,
    taken: set[str],
    held_out: Collection[str],
    dropped: Counter[str],
) -> list[NightTask]:
    """The first `dream_factor` variants that fit, as train tasks; the others are counted by reason.

    `taken` are the normal forms of requests that are learned from already and grows by what is kept;
    `held_out` those of requests that decide, tonight or in any night before. A form that would be held out if
    a person ever asked so is no lesson either.
    """
    kept: list[NightTask] = []
    for text in requests:
        request = redact_transcript(text).strip()
        form = normal(request)
        if len(kept) == settings.dream_factor:
            dropped["more than were wanted"] += 1
        elif not form or len(request) > _LONGEST:
            dropped["empty or too long"] += 1
        elif form in held_out:
            dropped["equal to a held-out request"] += 1
        elif split_of(form, settings) != "train":
            dropped["on the held-out side by its hash"] += 1
        elif form in taken:
            dropped["equal to another request"] += 1
        elif trouble := await _misfit(parent, request):
            dropped[trouble] += 1
        else:
            taken.add(form)
            # Another wording has other words, which would not be found again.
            guards = parent.guards.model_copy(update={"words": (), "least": 0})
            made = {
                "guards": guards,
                "id": f"{parent.id}_dream{len(kept) + 1}",
                "prompt": request,
                "split": "train",
            }
            kept.append(parent.model_copy(update={**made, "origin": "dream", "parent": parent.id}))
    return kept


def dream_messages(batch: Sequence[NightTask], wanted: int) -> tuple[Message, ...]:
    """What the optimizer is asked; everything inside the tags is data."""
    parts = [f"Write {wanted} further requests for each of these {len(batch)}."]
    for number, task in enumerate(batch, start=1):
        may = "subject" if _is_about_form(task) else "wording"
        asked = tagged("request", task.prompt, _SHOWN, f' task="{number}" may="{may}"')
        parts.append(f"{asked}\n{tagged('check', _measure(task), _SHOWN)}")
    return messages_of("dream", parts)


async def _asked(model: Model, batch: Sequence[NightTask], wanted: int, max_tokens: int) -> _Reply | str:
    """What the optimizer wrote, or why there is nothing, in the words it is counted under."""
    messages = dream_messages(batch, wanted)
    try:
        reply = await ask(model, messages, _Reply, stage="dream", max_tokens=max_tokens, about="for variants")
    except BudgetSpent:
        return "tasks the allowance did not reach"
    return reply or "tasks whose reply could not be read"


def _is_about_form(task: NightTask) -> bool:
    """Whether the measure sees only an answer's form, so that another subject can be measured by it."""
    return not task.rubric and all(rule.is_shape or rule.name in _HARMLESS for rule in task.rules)


async def _misfit(parent: NightTask, request: str) -> str:
    """Why the parent's measure does not fit the variant; empty where it does."""
    asked = parent.prompt
    numbers = [Counter(_NUMBER.findall(text)) for text in (asked, request)]
    quoted = [Counter("".join(parts) for parts in _QUOTED.findall(text)) for text in (asked, request)]
    if numbers[0] != numbers[1] or quoted[0] != quoted[1]:
        return "changes numbers or quoted words"
    if set(demands(request)) != set(demands(asked)):
        return "makes other demands than are measured"
    # What the checks name and the request itself says, and where more than form counts, every name in it.
    phrases = {rule.arg.casefold() for rule in parent.rules if isinstance(rule.arg, str)}
    anchors = {phrase for phrase in phrases if phrase in asked.casefold()}
    if not _is_about_form(parent):
        anchors |= {name.casefold() for name in _NAME.findall(asked)}
    if any(anchor not in request.casefold() for anchor in anchors):
        return "leaves out what the answer depends on"
    if parent.accepted and not await _passes(parent, (*parent.rules, *demands(request)), parent.accepted):
        return "an accepted answer would fail"
    return ""


async def _passes(task: NightTask, rules: Sequence[Rule], answer: str) -> bool:
    try:
        unique = list(dict.fromkeys(rules))
        return all(await kept_rules(unique, CheckedWork(answer=answer), whose=f"task {task.id!r}"))
    except ScoringError:  # a pattern that never ends proves nothing
        return False


def _measure(task: NightTask) -> str:
    checks = [
        f"- {check['op']}" + ("" if check.get("arg") is None else f": {check['arg']}")
        for check in task.checks
    ]
    return "\n".join([*checks, *([f"A judge asks: {task.rubric.strip()}"] if task.rubric.strip() else [])])
