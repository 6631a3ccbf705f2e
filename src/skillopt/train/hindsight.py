"""How the same training tasks go with an older and a newer skill: what the end of an epoch learns from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.aio import together
from skillopt.evaluation.runner import Evaluator, rows_of, stage_closed
from skillopt.events import Sink
from skillopt.optimizer.epoch import Advice, Pair, PairPolicy, kept_pairs, pairs_of
from skillopt.skill.document import Document
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """What came before this run, where it goes on from earlier ones: the end of its first epoch then has
    something to look back to.
    """

    older: Document
    """The skill as it was then."""
    tasks: tuple[Task, ...]
    """Training tasks of that time; none of them is in val or test."""
    ago: str
    """When it was, in words: `3 nights ago`."""


class Hindsight:
    """Compares two skills on samples of training tasks and keeps the pairs that its policy wants."""

    def __init__(self, evaluator: Evaluator, *, emit: Sink, policy: PairPolicy, wanted: int) -> None:
        self._evaluator = evaluator
        self._emit = emit
        self._policy = policy
        self._wanted = wanted

    async def look_back(
        self, older: Document, newer: Document, samples: Iterable[Sequence[Task]], place: str
    ) -> list[Pair]:
        """The first sample with both skills, side by side; most rows were measured before and cost nothing.

        Where only changed outcomes are wanted, further samples are looked at until there are enough of them.
        """
        kept: list[Pair] = []
        for number, tasks in enumerate(samples):
            pairs = await self._compare(
                older, newer, tasks, place if number == 0 else f"{place}/more-{number}"
            )
            kept += kept_pairs(pairs, self._policy)
            if self._policy != "changed" or len(kept) >= self._wanted:
                break
        return kept[: self._wanted]

    async def _compare(
        self, older: Document, newer: Document, tasks: Sequence[Task], place: str
    ) -> list[Pair]:
        arms = [
            self._evaluator.start(skill.rendered, rows_of(tasks), stage="rollout", place=f"{place}/{name}")
            for name, skill in (("older", older), ("newer", newer))
        ]
        before, after = await together(*(arm.close() for arm in arms))
        for arm, rows in zip(arms, (before, after), strict=True):
            self._emit(stage_closed(arm.place, arm.stage, rows))
        return pairs_of(tasks, before, after)


async def nothing_to_say() -> Advice:
    """Stands where a voice would, when nothing is left to compare."""
    return Advice(
        text="", why="no task is left to compare the two skills on (optimizer.longitudinal_pair_policy)"
    )


def skipped(older: Document | None, is_wanted: bool) -> dict[str, Any]:
    """What is told of an end of an epoch that asked nobody."""
    return {"action": "off" if not is_wanted else "skip_first_epoch" if older is None else "skip_unchanged"}
