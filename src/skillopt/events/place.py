"""Where in a run something happened: a value that writes and reads the text which stands in events, keys and
the ledger.

    baseline   finish                        the first measurement, the last checkpoint
    e2/s7      e2/s7.1                       step 7 in epoch 2; its second take, after it was opened again
    e2/s7/c1                                 its second candidate; the first has the place of the step
    e2/end     e2/end.1                      the end of an epoch
    e2/end/more-1/older                      one arm of a further sample that it compares
    test/2.8   test/2.8.1/best               the sealed test after epoch 2 and step 8, and one skill of it
    <place>/<stage>                          a stage there, which is also the id of the event that closes it
    <place>/<stage>/<item>/a<attempt>        one question to the optimizer model
    <place>/<stage>/<item>#<number>          one proposal of its answer
    rollout/<key>.<attempt>/<turn>           one call of a target
    anything else                            a name that only its owner understands
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from pydantic_core import CoreSchema, core_schema

Scope = Literal["baseline", "step", "end", "test", "rollout", "finish", "named"]
Arm = Literal["", "older", "newer"]
_STAGE = r"(?:/(?P<stage>[a-z_]+)(?:/(?P<item>[\w-]+))?(?:/a(?P<attempt>\d+))?)?(?:#(?P<number>\d+))?"
_FORMS: tuple[tuple[Scope, re.Pattern[str]], ...] = (
    (
        "step",
        re.compile(r"e(?P<epoch>\d+)/s(?P<step>\d+)(?P<takes>\.\d+)?(?:/c(?P<candidate>\d+))?" + _STAGE),
    ),
    (
        "end",
        re.compile(
            r"e(?P<epoch>\d+)/end(?P<takes>\.\d+)?(?:/more-(?P<sample>\d+))?(?:/(?P<arm>older|newer))?"
            + _STAGE
        ),
    ),
    ("rollout", re.compile(r"rollout/(?P<name>[^/.]+)\.(?P<attempt>\d+)/(?P<turn>\d+)")),
    (
        "test",
        re.compile(r"test/(?P<epoch>\d+)\.(?P<step>\d+)(?P<takes>(?:\.\d+)*)(?:/(?P<name>[a-z]+))?" + _STAGE),
    ),
    ("baseline", re.compile("baseline" + _STAGE)),
    ("finish", re.compile("finish" + _STAGE)),
)
_TEXTS = frozenset({"arm", "name", "stage", "item"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place of a run. Two places are equal when their texts are."""

    scope: Scope
    epoch: int = 0
    step: int = 0
    takes: tuple[int, ...] = ()
    """Which take of a step or an epoch's end this is, if not the first; of a test the takes of all steps."""
    candidate: int = 0
    sample: int = 0
    arm: Arm = ""
    name: str = ""
    """The skill of a test, the key of a rollout, or the whole text of a place that is only a name."""
    stage: str = ""
    item: str = ""
    attempt: int | None = None
    turn: int | None = None
    number: int | None = None

    @classmethod
    def of_step(cls, epoch: int, step: int, take: int = 0) -> Place:
        """The place of a step. `take` is 0 for the first run of the step and counts later runs from 1."""
        return cls(scope="step", epoch=epoch, step=step, takes=(take,) if take else ())

    @classmethod
    def end_of(cls, epoch: int, take: int = 0) -> Place:
        """The end of an epoch."""
        return cls(scope="end", epoch=epoch, takes=(take,) if take else ())

    @classmethod
    def of_test(cls, epoch: int, step: int, takes: Iterable[int] = ()) -> Place:
        """A look at the sealed test after that step."""
        return cls(scope="test", epoch=epoch, step=step, takes=tuple(takes))

    @classmethod
    def of_turn(cls, key: str, attempt: int, turn: int) -> Place:
        """A call of the target in one attempt at a rollout."""
        return cls(scope="rollout", name=key, attempt=attempt, turn=turn)

    @classmethod
    def named(cls, *parts: str, attempt: int | None = None) -> Place:
        """A place outside the plan of a run, by a name of the caller's own."""
        return cls(scope="named", name="/".join(parts), attempt=attempt)

    def part(self, *, candidate: int = 0, sample: int = 0, arm: Arm = "", name: str = "") -> Place:
        """A candidate of a step, where number 0 has the place of the step itself; one of the two skills that
        the end of an epoch compares, in a further sample; one of the skills of a test.
        """
        return replace(self, candidate=candidate, sample=sample, arm=arm, name=name)

    def at(
        self, stage: str, item: str = "", *, attempt: int | None = None, number: int | None = None
    ) -> Place:
        """A stage there; with `item` one question of it, with `number` one proposal of the answer."""
        return replace(self, stage=stage, item=item, attempt=attempt, number=number)

    @property
    def root(self) -> Place:
        """The step, epoch end, test or baseline that this belongs to."""
        return Place(scope=self.scope, epoch=self.epoch, step=self.step, takes=self.takes)

    @classmethod
    def parse(cls, text: str) -> Place:
        """The place that a text names; one of no known form is a name."""
        return _parsed(text)

    def __str__(self) -> str:
        if self.scope == "rollout":
            return f"rollout/{self.name}.{self.attempt}/{self.turn}"
        text = self._base()
        for part in (self.stage, self.item):
            text += f"/{part}" if part else ""
        text += "" if self.attempt is None else f"/a{self.attempt}"
        return text if self.number is None else f"{text}#{self.number}"

    def _base(self) -> str:
        takes = "".join(f".{take}" for take in self.takes)
        if self.scope == "step":
            return f"e{self.epoch}/s{self.step}{takes}" + (f"/c{self.candidate}" if self.candidate else "")
        if self.scope == "end":
            sample = f"/more-{self.sample}" if self.sample else ""
            return f"e{self.epoch}/end{takes}{sample}" + (f"/{self.arm}" if self.arm else "")
        if self.scope == "test":
            return f"test/{self.epoch}.{self.step}{takes}" + (f"/{self.name}" if self.name else "")
        return self.name if self.scope == "named" else self.scope

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, cls) else cls.parse(given),
            serialization=core_schema.to_string_ser_schema(),
        )


BASELINE = Place(scope="baseline")
FINISH = Place(scope="finish")
START = Place.named("start")
"""The skill that training starts from where it is not the seed."""
PRUNING = Place.named("prune")
"""The end of training, where idle lines are left out."""
EARLY_TEST = Place.named("test", "seed")
"""The seed's rows of the sealed test, measured in idle slots before anybody looks."""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Place:
    for scope, form in _FORMS:
        if found := form.fullmatch(text):
            parts: dict[str, Any] = {name: said for name, said in found.groupdict().items() if said}
            takes = tuple(int(take) for take in parts.pop("takes", "").split(".") if take)
            values: dict[str, Any] = {key: one if key in _TEXTS else int(one) for key, one in parts.items()}
            return Place(scope=scope, takes=takes, **values)
    return Place.named(text)
