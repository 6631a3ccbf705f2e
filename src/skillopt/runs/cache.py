"""Rollouts shared between runs: what one run measured, an equal one need not pay again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from skillopt.errors import Kind
from skillopt.messages import as_plain
from skillopt.runs.database import Database
from skillopt.tasks.rollout import Invalid, Score, Trajectory


class SharedRollouts:
    """A run's own rollouts first, then those of earlier runs, which are only read, then those of the shared
    file, which holds only scored ones.
    """

    def __init__(self, own: Database, path: Path | None, earlier: Sequence[Path] = ()) -> None:
        """`earlier` are databases of runs; one that is not there is passed over."""
        self._own = own
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._shared = None if path is None else Database(path)
        self._earlier = [Database.reading(one) for one in earlier if one.is_file()]

    def shut(self) -> None:
        for one in (*self._earlier, *([] if self._shared is None else [self._shared])):
            one.shut()

    def finished(self, rollout: str) -> tuple[int, Trajectory] | None:
        own = self._own.finished(rollout)
        if own is not None:
            return own
        for other in (*self._earlier, *([] if self._shared is None else [self._shared])):
            found = other.finished(rollout)
            if found is not None:
                self._own.keep(rollout, found[0], found[1])
                return found
        return None

    def next_attempt(self, rollout: str) -> int:
        return self._own.next_attempt(rollout)

    def keep(self, rollout: str, attempt: int, trajectory: Trajectory) -> None:
        self._own.keep(rollout, attempt, trajectory)

    def scored(self, rollout: str, scorer: str) -> tuple[int, Trajectory, Score] | None:
        """With the run's own score, else one another run gave this very trajectory: judging costs money."""
        own = self._own.scored(rollout, scorer)
        done = None if own else self.finished(rollout)
        if done is None:
            return own
        given = [one.scored(rollout, scorer) for one in self._earlier]
        if self._shared is not None:
            given.append(self._shared.scored(rollout, _of(scorer, done[1])))
        for found in given:
            if found is not None and found[:2] == done:
                self._own.keep_score(rollout, done[0], scorer, found[2])
                return found
        return None

    def keep_score(self, rollout: str, attempt: int, scorer: str, score: Score) -> None:
        self._own.keep_score(rollout, attempt, scorer, score)
        done = self._own.finished(rollout)
        if self._shared is not None and done is not None and done[0] == attempt:
            self._shared.keep(rollout, attempt, done[1])
            self._shared.keep_score(rollout, attempt, _of(scorer, done[1]), score)

    def close_invalid(self, stage: str, rows: Iterable[tuple[str, Invalid]]) -> None:
        self._own.close_invalid(stage, rows)

    def closed_invalid(self, stage: str, rollout: str) -> tuple[int, Kind, str] | None:
        return self._own.closed_invalid(stage, rollout)


def _of(scorer: str, trajectory: Trajectory) -> str:
    """A scorer's name for one trajectory: two runs at once may have their own of the same attempt."""
    text = json.dumps(trajectory, sort_keys=True, default=as_plain)
    return f"{scorer} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
