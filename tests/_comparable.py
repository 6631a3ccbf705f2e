"""Events of two runs, made comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.events import Event

VOLATILE = frozenset({"time", "timing", "wall_time_s", "time_s", "seconds", "resumed", "retries"})


def comparable(event: Event) -> Any:
    """The event without what may differ between equal runs: clock times, durations, retries, resumed."""

    def strip(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: strip(item) for key, item in value.items() if key not in VOLATILE}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(event.model_dump(mode="json"))
