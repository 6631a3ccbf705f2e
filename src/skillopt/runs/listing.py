"""Many runs at once, each in a line: read in part only, so that long ones are listed quickly."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from skillopt.errors import SkillOptError
from skillopt.evaluation.significance import Significance
from skillopt.runs.facts import significance_of
from skillopt.runs.log import EVENTS
from skillopt.runs.notes import read_looks
from skillopt.runs.reader import RunReader
from skillopt.skill.document import SKILL_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """One run in a line. None is a score not measured or a price not known; `trouble`: unreadable, why."""

    folder: Path
    benchmark: str = ""
    skill: str = ""
    """What the seed is called; empty where it is the benchmark's own."""
    target: str = ""
    optimizer: str = ""
    simulated: bool = False
    status: str = "unreadable"
    step: int = 0
    steps: int = 0
    actions: tuple[str, ...] = ()
    baseline: float | None = None
    best: float | None = None
    test: Mapping[str, float] = field(default_factory=dict)
    """Scores of seed and best at the last look at the test; empty where it was not measured."""
    significance: Significance = "not proven yet"
    looks: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    in_flight: int = 0
    tokens_reserved: int = 0
    """Set aside for the calls in flight, beside what was spent."""
    changed: float = 0.0
    """When its log last grew, seconds since 1970."""
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """The figures for programs."""
        left_out = ("actions", "trouble")
        return {
            **{key: item for key, item in asdict(self).items() if key not in left_out},
            "folder": str(self.folder),
            "changed": datetime.fromtimestamp(self.changed, timezone.utc).isoformat(timespec="seconds"),
        }


class Listing:
    """Reads a list of runs again and again; what was read of a run before is not read again."""

    def __init__(self) -> None:
        self._known: dict[Path, RunReader] = {}
        self._lock = threading.Lock()

    def read(self, folders: Iterable[Path]) -> list[RunOverview]:
        """The training runs among some folders, as they stand; a folder of `eval` is none."""
        with self._lock:
            self._known = {
                folder: self._known.get(folder) or RunReader(folder, in_detail=False) for folder in folders
            }
            read = map(_overview, self._known.values())
            return [one for one in read if one is not None]


def _overview(reader: RunReader) -> RunOverview | None:
    folder = reader.folder
    try:
        reader.follow()
        changed, looks_by_eval = (folder / EVENTS).stat().st_mtime, len(read_looks(folder))
    except (SkillOptError, OSError) as error:  # one damaged folder must not hide the others
        return RunOverview(folder=folder, trouble=str(error))
    fold, started, state = reader.fold, reader.fold.started, reader.fold.result
    if started is None:
        return None
    spent, compared = reader.spending.settled(), reader.compared()
    return RunOverview(
        folder=folder,
        benchmark=started.benchmark,
        skill=_name(reader.config.get("env", {}).get("skill_init")),
        target=started.target,
        optimizer=started.optimizer,
        simulated=started.simulated,
        status=reader.state,
        step=0 if state is None else state.step,
        steps=started.steps,
        actions=tuple(record.action for record in fold.records),
        baseline=None if state is None else state.baseline_score,
        best=None if state is None else state.best_score,
        test={} if compared is None else {"seed": compared.before, "best": compared.after},
        significance=significance_of(fold, *((compared.delta, compared.p) if compared else (None, None))),
        looks=len(fold.looks) + looks_by_eval,
        calls=spent.calls,
        tokens=spent.tokens,
        usd=spent.dollars,
        in_flight=reader.spending.in_flight,
        tokens_reserved=reader.spending.tokens_reserved,
        changed=changed,
    )


def _name(seed: str | None) -> str:
    if seed is None:
        return ""
    return Path(seed).parent.name if Path(seed).name == SKILL_FILE else Path(seed).name
