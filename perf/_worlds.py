"""Nine kinds of *simulated* world in which search strategies are compared. Harder than the embedded world:
optimizers are often wrong, word one rule in several ways and lose good edits on opinion.

A case needs up to two rules of its family, and is broken by some harmful or overreaching lines. Which ones is
known here alone, so the true score of a skill is counted without noise on fresh cases that no run has seen.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Split, Task

FAMILIES = ("invoices", "dates", "addresses", "units", "names", "tables", "quotes", "contracts")
ANCHOR = "- Read the whole case before you answer."
SEED_SKILL = f"# House rules for cases\n\nAnswer each case with its code.\n\n## Rules\n\n{ANCHOR}\n"
CASE = re.compile(r"\bC\d{6}\b")
TRAIN_CASES = 120
TRUTH_CASES = 2_000
HARMFUL_LINES = 12
HARMFUL_REACH = (0.03, 0.12)
"""Share of all cases that a harmful line breaks, lowest and highest."""
BROAD_REACH = (0.03, 0.20)
"""Share of the cases of other families that an overreaching line breaks."""
HARM_COUNTS_FROM = 0.005
"""A line is harmful if the true score would rise by at least that much without it."""
_FIRST = {"train": 0, "val": 10_000, "test": 20_000, "truth": 100_000}
_WORDINGS: Mapping[str, Sequence[str]] = {
    "right": (
        "Check field {n} of cases about {family}.",
        "In cases about {family}, the code depends on field {n}.",
        "Cases about {family}: never answer before field {n} is read.",
        "For {family}, compare what you found with field {n}.",
    ),
    "broad": (
        "Check field {n} in every case, whatever it is about.",
        "The code always depends on field {n}.",
    ),
    "harmful": ("Pass over part {n} of a case.", "Part {n} of a case can be left out."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What makes one kind of world different from the plain one. The figures were set on the strategy `paper`
    alone: on the plain world it ends near 0.73, as measured against worlds of others.
    """

    rules: int = 16
    """Rules that help, in all families together; in each family the first is needed most often."""
    noise: float = 0.02
    """Chance that an answer of the target is the opposite of what it should be."""
    right: float = 0.7
    """Chance, on average over the rules, that an edit meant to help does; some rules are hard to find."""
    harm: float = 0.3
    """Chance that a failure analyst's reply also carries a harmful line."""
    disturb: float = 0.0
    """Chance that a case fails although its rule is stated, where the neighbour of that rule is too."""
    broad: float = 0.0
    """Chance that an edit that helps is worded so broadly that it breaks cases of other families."""
    val_cases: int = 60


KINDS: Mapping[str, Kind] = {
    "plain": Kind(),
    "noise 10 %": Kind(noise=0.10),
    "noise 20 %": Kind(noise=0.20),
    "optimizer 70 % wrong": Kind(right=0.3),
    "many small rules": Kind(rules=48),
    "rules that disturb": Kind(disturb=0.5),
    "val of 20": Kind(val_cases=20),
    "nothing helps": Kind(right=0.0, noise=0.10),
    "overreach": Kind(broad=0.7),
}


class Line(NamedTuple):
    """What a line of a skill does: helps with a rule, does so but reaches too far, or only harms."""

    does: Literal["right", "broad", "harmful"]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The truth about one case."""

    family: str
    needs: frozenset[int]
    broken_by: frozenset[Line]
    disturbed: frozenset[int]
    """Rules it needs that do not help where their neighbour is stated too."""


class World:
    """The truth of one world, a function of its kind and seed."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        dice = random.Random(f"world {seed}")
        per_family = kind.rules // len(FAMILIES)
        self._families = {
            family: range(at * per_family, (at + 1) * per_family) for at, family in enumerate(FAMILIES)
        }
        self.home = {rule: family for family, rules in self._families.items() for rule in rules}
        # Some rules are found by most analysts, some by few.
        self.chance_right = {rule: kind.right * dice.uniform(0.5, 1.5) for rule in self.home}
        self._reach = {
            Line("harmful", number): dice.uniform(*HARMFUL_REACH) for number in range(HARMFUL_LINES)
        } | {Line("broad", rule): dice.uniform(*BROAD_REACH) for rule in self.home}
        self.case = cache(self._case)

    def _case(self, id: str) -> Case:
        dice = random.Random(f"case {self.seed} {id}")
        family = dice.choice(FAMILIES)
        own = list(self._families[family])
        wanted = 0 if (draw := dice.random()) < 0.35 else 1 if draw < 0.88 else 2
        needs: set[int] = set()
        while len(needs) < min(wanted, len(own)):
            needs.add(dice.choices(own, [1 / (1 + place) for place in range(len(own))])[0])
        broken = {
            line
            for line, reach in self._reach.items()
            if dice.random() < reach and (line.does == "harmful" or self.home[line.number] != family)
        }
        disturbed = {rule for rule in sorted(needs) if dice.random() < self.kind.disturb}
        return Case(
            family=family,
            needs=frozenset(needs),
            broken_by=frozenset(broken),
            disturbed=frozenset(disturbed),
        )

    @staticmethod
    def code(id: str) -> str:
        return hashlib.sha256(f"code of {id}".encode()).hexdigest()[:6].upper()

    def wordings(self, line: Line) -> list[str]:
        family = self.home.get(line.number, "")
        return [text.format(n=line.number, family=family) for text in _WORDINGS[line.does]]

    @cached_property
    def _meanings(self) -> dict[str, Line]:
        lines = [Line("right", rule) for rule in self.home] + list(self._reach)
        return {normalised(text): line for line in lines for text in self.wordings(line)}

    def meaning(self, text: str) -> Line | None:
        """What a line does, whichever wording it has; None where it does nothing."""
        return self._meanings.get(normalised(text))

    def reading(self, skill: str) -> frozenset[Line]:
        """What the lines of a skill do."""
        return frozenset(filter(None, map(self.meaning, skill.splitlines())))

    def is_solved(self, id: str, lines: frozenset[Line]) -> bool:
        """Whether a target without noise solves a case."""
        return self._solves(lines, (id,)) == 1

    def true_score(self, lines: frozenset[Line]) -> float:
        """Share of fresh cases that a skill solves without noise."""
        first = _FIRST["truth"]
        return self._solves(lines, [f"C{first + at:06d}" for at in range(TRUTH_CASES)]) / TRUTH_CASES

    def _solves(self, lines: frozenset[Line], ids: Iterable[str]) -> int:
        stated = {line.number for line in lines if line.does != "harmful"}
        return sum(
            case.needs <= stated
            and case.broken_by.isdisjoint(lines)
            and not any(rule ^ 1 in stated for rule in case.disturbed)
            for case in map(self.case, ids)
        )

    def harmful(self, lines: frozenset[Line]) -> int:
        """Lines without which the true score would be higher."""
        score = self.true_score(lines)
        return sum(self.true_score(lines - {line}) >= score + HARM_COUNTS_FROM for line in lines)


class Cases(Benchmark):
    """The tasks of a world as a benchmark."""

    prompts: Mapping[str, str] = {
        "rollout": (
            "You work on cases of a simulated world.\n\n## Skill\n\n{skill}\n\n"
            "Answer with the code of the case in <answer> tags."
        )
    }
    seed_skill = SEED_SKILL
    scorer_version = "worlds-1"
    graded: bool | None = False

    def __init__(self, world: World) -> None:
        self.name = "simulated-cases"
        self._world = world
        self._counts = {"train": TRAIN_CASES, "val": world.kind.val_cases, "test": 0}

    def tasks(self, split: Split) -> Sequence[Task]:
        first = _FIRST[split]
        return [self._task(f"C{first + number:06d}") for number in range(self._counts[split])]

    def open(self, task: Task) -> None:
        return None

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        right = task.reference in trajectory.answer
        return Score(hard=float(right), soft=float(right), feedback="" if right else "the code is wrong")

    def _task(self, id: str) -> Task:
        family = self._world.case(id).family
        dice = random.Random(f"text {id}")
        fields = "\n".join(f"{number}: {dice.getrandbits(64):016x}" for number in range(100))
        prompt = f"Case {id}, about {family}. What is its code?\n\n{fields}"
        return Task(id=id, prompt=prompt, reference=self._world.code(id), kind=family)


def normalised(text: str) -> str:
    """A line without its bullet, case and punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))
