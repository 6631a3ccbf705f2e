"""Dreams: asks the optimizer for variants of tonight's train tasks, through the stack every call passes, and
keeps those that fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from math import ceil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skillopt.aio import together
from skillopt.build import Job, open_run
from skillopt.changes.proposal import Cost
from skillopt.errors import BudgetSpent, Fault, ProviderDown
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.models.reading import Unusable, read, tries
from skillopt.night._kinds import normal
from skillopt.night.job import prompt_text
from skillopt.night.mine import MineSettings, split_of
from skillopt.night.tonight import Dreams, Group, PinnedTask
from skillopt.night.variants import is_about_form, kept_variants

BATCH = 8
"""Tasks of one question."""
SHARE = 4
"""Dreams may use one part in so many of what is left of the allowance: they have to be learned from
afterwards.
"""
_SHOWN = 2_000
_OURS = re.compile(r"<(?=/?(?:request|check)\b)", re.IGNORECASE)


class _Variants(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task: int
    requests: list[str] = Field(default_factory=list, max_length=100)


class _Dreamt(BaseModel):
    model_config = ConfigDict(extra="ignore")

    variants: list[_Variants]


async def dreamt(
    group: Group, job: Job, folder: Path, *, factor: int, splits: MineSettings, held_out: Collection[str]
) -> Group:
    """The group with up to `factor` variants of each of its train tasks, all of them train tasks; and what
    became of the others.

    A stopped night finds its replies in `folder` again. Where the allowance ends, what was answered by then
    is used. `held_out` are normal forms of requests that decided in earlier nights or decide tonight, for
    whichever skill.
    """
    parents = [task for task in group.tasks if task.split == "train" and task.origin == "real"]
    wanted = ceil(
        factor / max(0.1, 1 - splits.val_fraction - splits.test_fraction)
    )  # some fall to the held-out side by their hash
    batches = [parents[at : at + BATCH] for at in range(0, len(parents), BATCH)]
    async with open_run(job, folder, {"dreams": 1, "wanted": wanted, **job.identity()}) as opened:
        model = opened.models.of("optimizer", job.optimizer)
        try:
            replies = await together(
                *(_ask(model, batch, wanted, job.optimizer.max_tokens) for batch in batches)
            )
        finally:
            await opened.drain()  # what is paid is kept
        paid = opened.spending()
        cost = Cost(
            calls=paid["calls"],
            tokens=paid["tokens"],
            dollars=paid["usd"],
            minutes=round(opened.seconds / 60, 2),
        )
    held = {*held_out, *(normal(task.prompt) for task in group.tasks if task.split != "train")}
    taken = {normal(task.prompt) for task in group.tasks}
    dropped: Counter[str] = Counter()
    dreams: list[PinnedTask] = []
    for batch, reply in zip(batches, replies, strict=True):
        if isinstance(reply, str):
            dropped[reply] += len(batch)
            continue
        for number, parent in enumerate(batch, start=1):
            requests = [request for one in reply.variants if one.task == number for request in one.requests]
            dreams += await kept_variants(
                parent,
                requests,
                most=factor,
                taken=taken,
                held_out=held,
                split_of=lambda form: split_of(form, splits),
                dropped=dropped,
            )
    done = Dreams(kept=len(dreams), of=len(parents), dropped=dict(sorted(dropped.items())), cost=cost)
    return group.model_copy(update={"tasks": (*group.tasks, *dreams), "dreams": done})


async def _ask(model: Model, batch: Sequence[PinnedTask], wanted: int, max_tokens: int) -> _Dreamt | str:
    """What the optimizer wrote, or why there is nothing, in the words it is counted under."""
    for request in tries(
        dream_messages(batch, wanted), _Dreamt, role="optimizer", stage="dream", max_tokens=max_tokens
    ):
        try:
            return read(await model.complete(request), _Dreamt)
        except Unusable:
            continue
        except BudgetSpent:
            return "tasks the allowance did not reach"
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked for variants: {fault}. Nothing is lost: run the same"
                " command again."
            ) from fault
    return "tasks whose reply could not be read"


def dream_messages(batch: Sequence[PinnedTask], wanted: int) -> tuple[Message, ...]:
    """What the optimizer is asked; everything inside the tags is data."""
    parts = [f"Write {wanted} further requests for each of these {len(batch)}."]
    for number, task in enumerate(batch, start=1):
        mark = "subject" if is_about_form(task) else "wording"
        parts.append(
            f'<request task="{number}"'
            f' may="{mark}">\n{_data(task.prompt)}\n</request>\n<check>\n{_data(_measure(task))}\n</check>'
        )
    return Message(role="system", content=prompt_text("dream")), Message(
        role="user", content="\n\n".join(parts)
    )


def _measure(task: PinnedTask) -> str:
    checks = [
        f"- {check['op']}" + ("" if check.get("arg") is None else f": {check['arg']}")
        for check in task.reference.get("checks") or ()
    ]
    rubric = str(task.reference.get("rubric") or "").strip()
    return "\n".join([*checks, *([f"A judge asks: {rubric}"] if rubric else [])])


def _data(text: str) -> str:
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[cut]"
    return _OURS.sub("&lt;", cut)
