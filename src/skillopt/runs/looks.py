"""Looks at a run's test split by `eval`, noted in the run's folder so that reports can count them.

The notes lie beside the log, which tells what the run itself decided, the same in equal runs.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import RunConflict
from skillopt.files import lock_run, read_text, write_text

LOOKS = "looks.jsonl"


class MeasuredSkill(BaseModel):
    """One skill that was measured with one target. Digests tell what it was; names are for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    target_digest: str
    skill: str
    digest: str
    repeats: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two measurements the same."""
        return (self.target_digest, self.digest, self.repeats)


class Look(BaseModel):
    """One evaluation on a run's test tasks: one line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str = Field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="milliseconds"))
    tasks: int
    """How many tasks were measured."""
    seen: list[MeasuredSkill]


def read_looks(folder: Path) -> list[Look]:
    """The looks that are noted in a run folder, oldest first."""
    path = folder / LOOKS
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return []
    try:
        return [Look.model_validate_json(line) for line in lines if line.strip()]
    except ValueError as error:
        raise RunConflict(
            f"{path} holds a line that is no look of this program; put it back as it was written."
        ) from error


def note_look(folder: Path, look: Look) -> bool:
    """Note a look; False where it showed nothing that an earlier one had not shown already.

    Raises `RunConflict` when another process works in the folder: nothing is written then.
    """
    with lock_run(folder):
        known = read_looks(folder)
        if {one.key for one in look.seen} <= {one.key for each in known for one in each.seen}:
            return False
        write_text(folder / LOOKS, "".join(f"{each.model_dump_json()}\n" for each in (*known, look)))
    return True
