"""Decides what a report says of a step's proposals - edits, suggestions to a writer, whole skills - and of
the analysts behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skillopt.events import PatchFact
from skillopt.events.records import EditRecord, StepRecord
from skillopt.runs.values import EditFact, Study


def edit_fact(outcome: EditRecord, record: StepRecord) -> EditFact:
    """A proposal of any update mode and how it ended, also where only a part of the bundle was accepted."""
    edit, accepted = outcome.edit, record.accepted
    shown = next((key for key in ("content", "instruction", "new_skill") if edit.get(key)), "content")
    kind = "op" if "op" in edit else "type"
    is_left_out = accepted is not None and outcome.state == "applied" and outcome.id not in accepted.edits
    return EditFact(
        id=outcome.id,
        state="left_out" if is_left_out else outcome.state,
        reason="not in the candidate that was accepted" if is_left_out else outcome.reason,
        op="whole skill" if shown == "new_skill" else str(edit.get(kind, "")),
        target=str(edit.get("target", "")),
        content=str(edit.get(shown, "")),
        evidence={key: item for key, item in edit.items() if key not in (kind, "target", shown)},
    )


def study(patch: PatchFact) -> Study:
    """What one analyst looked at and saw."""
    patterns = [
        json.dumps(one, ensure_ascii=False) if not isinstance(one, Mapping) else _pattern(one)
        for one in patch.summary
    ]
    return Study(
        name=f"{patch.kind} {patch.index}",
        tasks=patch.tasks,
        patterns=patterns,
        edits=len(patch.edits),
        dropped=patch.dropped,
    )


def _pattern(pattern: Mapping[str, Any]) -> str:
    return ", ".join(f"{str(key).replace('_', ' ')}: {item}" for key, item in pattern.items())
