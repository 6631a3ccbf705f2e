"""Counts what a rehearsed run asks: calls and tokens by the stage that an estimate names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillopt.events import Checkpoint, Event, StageOpened
from skillopt.gate.gate import STAGE as GATE_STAGE
from skillopt.messages import Role
from skillopt.money import TEST_STAGE

CHARS_A_TOKEN = 4
"""Of English text; the providers' own counts are what is paid."""
BASELINE, ROLLOUT, GATE, SLOW, TEST = "baseline", "rollout", "gate", "slow rollouts", "test"
PROOF, CONTROL, BLAME = "proof", "control", "blame"
JUDGED_OUTSIDE, JUDGED_IN_STEPS = "judge, baseline and test", "judge, steps"
ORDER = (
    *(BASELINE, ROLLOUT, PROOF, CONTROL, GATE, BLAME, SLOW, TEST, JUDGED_OUTSIDE, JUDGED_IN_STEPS),
    *("proposer", "analyst", "joining", "merge", "ranking", "repair", "rewrite", "lr_autonomous"),
    *("appendix_consolidate", "slow_update", "meta_skill"),
)
_ANALYSTS = ("analyst_failure", "analyst_success", "analyst_proof")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What one stage took."""

    calls: float = 0
    input_tokens: float = 0
    output_tokens: float = 0

    def plus(self, other: Counted, times: float = 1) -> Counted:
        """Both together, the other one so many times."""
        return Counted(
            calls=self.calls + times * other.calls,
            input_tokens=self.input_tokens + times * other.input_tokens,
            output_tokens=self.output_tokens + times * other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much larger the run is than its rehearsal, where only a part of a large plan is rehearsed."""

    train: float = 1.0
    steps: float = 1.0
    val: float = 1.0
    test: float = 1.0


class CallCounter:
    """Hears the events of a rehearsal, so that it knows which part of the run a call belongs to."""

    def __init__(self, scale: Scale) -> None:
        self.stages: dict[tuple[str, Role], Counted] = {}
        self._scale = scale
        self._has_baseline = False
        self._place = ""

    def emit(self, event: Event) -> None:
        """Follow the rehearsal."""
        if isinstance(event, StageOpened):
            self._place = str(event.place)
        elif isinstance(event, Checkpoint):
            self._has_baseline = True

    def target(self, stage: str, input_tokens: float, output_tokens: float) -> None:
        """A call of the target in a stage of the trainer."""
        self._add(self._part(stage), "target", input_tokens, output_tokens, self._weight(stage))

    def judge(self, stage: str, characters: int, output_tokens: float) -> None:
        """A call of the judge about a rollout of that stage."""
        inside = self._part(stage) not in (BASELINE, TEST)
        name = JUDGED_IN_STEPS if inside else JUDGED_OUTSIDE
        asked = math.ceil(characters / CHARS_A_TOKEN)
        self._add(name, "judge", asked, output_tokens, self._weight(stage))

    def optimizer(self, stage: str, input_tokens: float, output_tokens: float) -> None:
        """A call of the optimizer."""
        at_the_end = stage in ("slow_update", "meta_skill")
        name = "analyst" if stage in _ANALYSTS else stage
        self._add(name, "optimizer", input_tokens, output_tokens, 1.0 if at_the_end else self._scale.steps)

    def _part(self, stage: str) -> str:
        if stage == TEST_STAGE:
            return TEST
        if stage == GATE_STAGE:
            return GATE if self._has_baseline else BASELINE
        if stage in (PROOF, CONTROL, BLAME):
            return stage
        return SLOW if "/end" in self._place else ROLLOUT

    def _weight(self, stage: str) -> float:
        part, scale = self._part(stage), self._scale
        once = "/end" in self._place
        return {
            TEST: scale.test,
            BASELINE: scale.val,
            GATE: scale.val * (1.0 if once else scale.steps),
            SLOW: 1.0,
            ROLLOUT: scale.train,
            PROOF: scale.train,
            CONTROL: scale.steps,
            BLAME: scale.steps,
        }[part]

    def _add(self, name: str, role: Role, input_tokens: float, output_tokens: float, weight: float) -> None:
        call = Counted(calls=1, input_tokens=input_tokens, output_tokens=output_tokens)
        self.stages[name, role] = self.stages.get((name, role), Counted()).plus(call, weight)


def stages_of(rehearsals: Iterable[Mapping[tuple[str, Role], Counted]]) -> list[tuple[str, Role]]:
    """Every stage of any rehearsal, in the order of a run."""
    found = {key for stages in rehearsals for key in stages}
    return sorted(found, key=lambda key: (ORDER.index(key[0]) if key[0] in ORDER else len(ORDER), key))
