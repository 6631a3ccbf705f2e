"""The small form of a lane's question, for optimizer models below about eight billion parameters.

Such a model finds one rule for failures of one kind and loses its way among several, and it often spoils
the worked example that a small target needs. So a lane holds one kind, the reply is one rule with one
example, and two edits are made of it: the rule with the example of the model, and the rule with the wanted
answer of a task, which is then not tried on that task.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from skillopt.evaluation.leaks import RUN
from skillopt.events import Minibatch
from skillopt.events.place import Place
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.minibatches import Studied, minibatch_of
from skillopt.optimizer.proof import ANALYST
from skillopt.optimizer.proposers.port import DeadEdit, Evidence
from skillopt.optimizer.render import clipped, section, skill_section
from skillopt.optimizer.replies import Unusable, WorkedRule
from skillopt.skill.edits import Edit
from skillopt.tasks.scorers import as_text

SHOWN = 4
"""Failures one question shows; each look at a lane draws others, or the same in another order."""
SMALL_SIZE, SMALL_WINDOW = 8.0, 16_000
"""Billions of parameters, and tokens of context, below which a model is asked in the small form."""
LONGEST_COPY = 160
"""Characters up to which a wanted answer is an example and no text."""
_SIZE = re.compile(r"(?<![\d.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])|(?<![\d.])(\d{2,4})m(?![a-z0-9])")
_WORD = re.compile(r"\w+")


def is_small(model: str, window: int) -> bool:
    """Whether a model is small by the largest size in its name (1.5b, 8x7b, 135m), or else by its window."""
    sizes = [
        float(millions) / 1000 if millions else float(billions) * int(experts or 1)
        for experts, billions, millions in _SIZE.findall(model.rsplit("/", 1)[-1].lower())
    ]
    return max(sizes) < SMALL_SIZE if sizes else window < SMALL_WINDOW


def by_kind(failures: Sequence[Studied], size: int) -> list[list[Studied]]:
    """Lanes of one kind each, about equal in size; tasks without a kind go by the likeness of words."""
    kinds: dict[str, list[Studied]] = {}
    for one in failures:
        kinds.setdefault(one.task.kind, []).append(one)
    left = kinds.pop("", [])
    lanes = []
    for group in kinds.values():
        parts = math.ceil(len(group) / size)
        lanes += [group[at::parts] for at in range(parts)]
    while left:
        words = _words(left[0])
        left.sort(key=lambda one: -len(words & _words(one)) / len(words | _words(one)))
        lanes.append(left[: min(size, SHOWN)])
        left = left[min(size, SHOWN) :]
    return lanes


class SmallLaneAnalyst:
    """Studies failures of one kind and proposes one rule in two wordings."""

    varies = True

    def __init__(self, model: OptimizerModel, *, scoring_rule: str = "") -> None:
        self._model = model
        self._rule = scoring_rule

    async def study(self, step: Step, item: str, evidence: Evidence) -> Minibatch:
        """Edits for these failures; of `dead` ones the last is told, and nothing else of what was tried: a
        small model takes a list of bad rules for an offer.
        """
        failed = list(evidence.failed)
        order = random.Random(f"{step.seed} {item}").sample(failed, len(failed))
        fixed = (
            skill_section(step.skill.whole)
            + section("How answers are scored", self._rule)
            + section(
                "A rule that did not help; write another one", "\n".join(map(_tried, evidence.dead[-1:]))
            )
        )
        share = self._model.room(fixed, ANALYST) // SHOWN // 3
        told = [
            f"Request: {clipped(one.task.prompt, share)}\n"
            f"The assistant said: {clipped(one.tries[-1].trajectory.answer, share)}\n"
            f"Wanted: {clipped(_reference(one) or one.tries[-1].score.feedback, share)}"
            for one in order[:SHOWN]
        ]
        user = fixed + section("Failed requests", "\n\n".join(told))
        reply = await self._model.ask(step, ANALYST, item, user, WorkedRule)
        if isinstance(reply, Unusable):
            return minibatch_of(failed, reply)
        return minibatch_of(failed, worked_edits(reply, order, step.place.at(ANALYST, item)))


def worked_edits(reply: WorkedRule, failures: Sequence[Studied], place: Place) -> list[Edit]:
    """The rule with the example that came with it, and with the wanted answer of the first task that has a
    short one. Neither names tasks whose answer it holds: these would pass by heart.
    """
    rule = " ".join(reply.rule.split()).lstrip("-* ")
    if not rule:
        return []
    wanted = {one.task.id: _reference(one) for one in failures}
    short = [text for text in wanted.values() if "\n" not in text and 0 < len(text) <= LONGEST_COPY]
    examples = [(f'"{_own_words(reply.request, failures)}" -> {reply.answer.strip()}', reply.answer.strip())]
    examples += [(text, text) for text in short[:1]]
    edits = list[Edit]()
    for example, answer in examples:
        tasks = [task for task, text in wanted.items() if text != answer]
        if answer and tasks:
            id = str(replace(place, number=len(edits)))
            content = f"- {rule} Example: {example}"
            edits.append(Edit("append", content=content, evidence={"tasks": tasks}, id=id))
    return edits


def _own_words(request: str, failures: Iterable[Studied]) -> str:
    """A request, or its last few words where it is copied from a task: a skill may not quote one."""
    spans = [found.span() for found in _WORD.finditer(request)]
    runs = {
        tuple(request[a:b].casefold() for a, b in spans[at : at + RUN]) for at in range(len(spans) - RUN + 1)
    }
    for one in failures:
        words = [word.casefold() for word in _WORD.findall(one.task.prompt)]
        if any(tuple(words[at : at + RUN]) in runs for at in range(len(words) - RUN + 1)):
            return f"... {request[spans[1 - RUN][0] :]}"
    return request.strip()


def _reference(one: Studied) -> str:
    return "" if one.task.reference is None else as_text(one.task.reference).strip()


def _tried(one: DeadEdit) -> str:
    said = [
        f"With it the assistant said: {clipped(row.trajectory.answer, 240)}" for _, row in one.answers[:1]
    ]
    return "\n".join([one.edit.content, *said])


def _words(one: Studied) -> set[str]:
    return {word.casefold() for word in _WORD.findall(one.task.prompt)}
