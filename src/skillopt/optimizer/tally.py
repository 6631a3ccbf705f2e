"""Counts the usage of exactly the stored replies that a record used."""

from __future__ import annotations

from collections import defaultdict

from skillopt.events.records import StageTokens
from skillopt.messages import Usage


class Tally:
    """Usage of exactly the stored replies a record used, by public stage name."""

    def __init__(self) -> None:
        self._stages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, stage: str, calls: int, usage: Usage | None) -> None:
        row = self._stages[stage.partition("_")[0] if stage.startswith("analyst") else stage]
        row[0] += calls
        if usage is not None:
            row[1] += usage.input_tokens
            row[2] += usage.output_tokens

    def as_record(self) -> dict[str, StageTokens]:
        return {
            stage: StageTokens(calls=calls, prompt_tokens=sent, completion_tokens=got)
            for stage, (calls, sent, got) in sorted(self._stages.items())
        }
