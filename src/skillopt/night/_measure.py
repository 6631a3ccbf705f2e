"""Decides how answers to a mined task are measured: checks or a rubric, each tried on answers whose worth is
known before it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.aio import together
from skillopt.errors import Fault, ProviderDown, ScoringError
from skillopt.night._demands import demands
from skillopt.night._episodes import Episode
from skillopt.night._label import Label
from skillopt.night.scoring import criteria_of, is_no_answer
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers._given import MOST_CHECKS, kept_rules, read_rules
from skillopt.tasks.scorers._rules import Contains, Rule, Work
from skillopt.tasks.task import Task

NO_ANSWERS = ("", "I'm sorry, I can't help with that.", "Sure! I will do that right away.")
"""Answers that no check of worth may be content with."""
_TRIED = 6
"""Answers of each sort that a check is tried on, the newest."""
_JUDGED = 2
"""Answers of each sort that a rubric is tried on, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Checks or a rubric that were seen to tell; false where there is neither."""

    checks: tuple[Rule, ...] = ()
    rubric: str = ""

    def __bool__(self) -> bool:
        return bool(self.checks or self.rubric)


async def measure_kind(kind: Sequence[Episode], told: Label | None, judge: Judge | None) -> Measure:
    """What holds for every request of a kind: demands made in corrections first, else what a model proposed;
    only what was seen to tell.
    """
    good = [text for episode in kind for text in episode.accepted][-_TRIED:]
    bad = [text for episode in kind for text in episode.rejected][-_TRIED:]
    said = [rule for episode in kind for text in episode.corrections for rule in demands(text)]
    demanded = _new([rule for rule in said if not isinstance(rule, Contains)])[:MOST_CHECKS]
    if bad and (checks := await telling(demanded, _after_correction(kind), [*bad, *NO_ANSWERS])):
        return Measure(checks=checks)
    if told is None or not (good or bad):
        return Measure()
    if good:
        proposed = await telling(read_rules(told.checks)[0], good, [*bad, *NO_ANSWERS])
        # Form alone can be met without getting anything right; a rubric then says what is meant.
        if not all(rule.is_shape for rule in proposed):
            return Measure(checks=proposed)
    if judge is not None and criteria_of(told.rubric):
        return Measure(rubric=await telling_rubric(judge, told.rubric, kind))
    return Measure()


async def measure(same: Sequence[Episode], of_kind: Measure) -> Measure:
    """How one task is measured, given how its kind is. `same` are the times this very request came.

    A demand in the request, or a word that an answer to it lacked, is a demand on this task alone.
    """
    asked = [rule for episode in same for rule in demands(episode.request.text)]
    corrected = [rule for episode in same for text in episode.corrections for rule in demands(text)]
    lacked = [rule for rule in corrected if isinstance(rule, Contains)]
    good = [text for episode in same for text in episode.accepted][-_TRIED:]
    bad = [text for episode in same for text in episode.rejected][-_TRIED:]
    own = await telling(_new([*asked, *lacked]), good, [*bad, *NO_ANSWERS]) if good or bad else ()
    checks = _new([*of_kind.checks, *own])[:MOST_CHECKS]
    return Measure(checks=checks) if checks else of_kind


async def telling(
    rules: Sequence[Rule], good: Sequence[str], bad: Sequence[str], *, timeout: float = 2.0
) -> tuple[Rule, ...]:
    """The rules that were seen to tell: each is kept by every good answer and broken by at least one bad one.

    One that everything keeps rewards everything, and one that a good answer breaks would punish what the
    person wanted. A rule whose own trial fails - a pattern that never ends - tells nothing.
    """
    kept: list[Rule] = []
    for rule in rules:
        try:
            right = all([await _keeps(rule, answer, timeout) for answer in good])
            if right and not all([await _keeps(rule, answer, timeout) for answer in bad]):
                kept.append(rule)
        except ScoringError:
            continue
    return tuple(kept)


async def telling_rubric(judge: Judge, rubric: str, kind: Sequence[Episode]) -> str:
    """The points of a rubric that accepted answers meet, if every rejected one and an empty promise misses at
    least one; else nothing.

    An answer that nobody could judge tells nothing either; a judge that cannot be asked is an outage.
    """
    good = [(episode, text) for episode in kind for text in episode.accepted][-_JUDGED:]
    bad = [(episode, text) for episode in kind for text in episode.rejected][-_JUDGED:]
    tried = [*good, *bad, (kind[-1], NO_ANSWERS[-1])]
    points = criteria_of(rubric)
    try:
        # All at once: who answers by hand gets them in one round.
        met = await together(*(_met(judge, episode, answer, points) for episode, answer in tried))
    except ScoringError as error:
        if isinstance(error.__cause__, Fault):
            raise ProviderDown(
                f"The judge could not be asked: {error.detail}. Nothing is lost: run the same command again."
            ) from error
        return ""
    kept = [place for place in range(len(points)) if all(one[place] for one in met[: len(good)])]
    tells = all(any(not one[place] for place in kept) for one in met[len(good) :])
    return "\n".join(f"- {points[place]}" for place in kept) if tells else ""


async def _met(judge: Judge, episode: Episode, answer: str, points: Sequence[str]) -> list[bool]:
    if is_no_answer(answer):
        return [False] * len(points)
    task = Task(id="mined", prompt=episode.request.text)
    found = await judge.check(task, Trajectory(messages=(), answer=answer, calls=0, usage=None), points)
    return [finding.met for finding in found]


async def _keeps(rule: Rule, answer: str, timeout: float) -> bool:
    return (await kept_rules([rule], Work(answer=answer), whose="a request", timeout=timeout))[0]


def _after_correction(kind: Sequence[Episode]) -> list[str]:
    """Accepted answers from the first correction on: what was fine before the person changed their mind
    proves nothing.
    """
    first = next((place for place, episode in enumerate(kind) if episode.corrections), len(kind))
    return [text for episode in kind[first:] for text in episode.accepted][-_TRIED:]


def _new(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys(rules))
