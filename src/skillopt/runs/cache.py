"""Rollouts shared between runs: what one run measured, an equal one need not pay again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from skillopt.errors import RunConflict, Stopped
from skillopt.files import make_private_folder
from skillopt.messages import as_plain
from skillopt.runs.database import Database
from skillopt.tasks.rollout import Score, Trajectory

T = TypeVar("T")


class SharedRollouts:
    """A run's own rollouts first, then those of earlier runs, then scored ones of the shared file."""

    def __init__(
        self, own: Database, path: Path | None, earlier: Sequence[Path] = (), *, limit: int | None = None
    ) -> None:
        """`earlier` are databases of runs; one that is not there is passed over.

        `limit` is how many bytes the shared file may take: what was used longest ago is then forgotten, and
        a file that cannot be used is done without. Nobody asked for it, so it must not end a run.
        """
        self._own, self._limit = own, limit
        self._shared: Database | None = None
        with suppress(*(() if limit is None else (OSError, RunConflict))):
            if path is not None:
                make_private_folder(path.parent)
                if not path.parent.stat().st_mode & 0o077:  # a folder that others share stays as they want it
                    path.touch(mode=0o600)
                self._shared = Database(path)
        self.earlier = [Database.reading(one) for one in earlier if one.is_file()]
        # What only the run itself knows.
        self.next_attempt, self.keep = own.next_attempt, own.keep
        self.close_invalid, self.closed_invalid = own.close_invalid, own.closed_invalid

    def shut(self) -> None:
        if self._limit is not None:
            self._in_shared(lambda shared: shared.shrink(self._limit or 0))
        for one in (*self.earlier, *([] if self._shared is None else [self._shared])):
            one.shut()

    def _in_shared(self, do: Callable[[Database], T]) -> T | None:
        """What is done in the shared file, if there is one."""
        if self._shared is None:
            return None
        try:
            return do(self._shared)
        except Stopped:
            if self._limit is None:
                raise
            self._shared = None
            return None

    def finished(self, rollout: str) -> tuple[int, Trajectory] | None:
        own = self._own.finished(rollout)
        if own is not None:
            return own
        for other in self.earlier:
            if (found := other.finished(rollout)) is not None:
                self._own.keep(rollout, *found)
                return found
        done = self._in_shared(lambda shared: shared.finished(rollout))
        if done is not None:
            self._own.keep(rollout, *done)
            if self._limit is not None:  # it was used last
                self._in_shared(lambda shared: shared.keep(rollout, *done))
        return done

    def scored(self, rollout: str, scorer: str) -> tuple[int, Trajectory, Score] | None:
        """With the run's own score, else one another run gave this very trajectory: judging costs money."""
        own = self._own.scored(rollout, scorer)
        done = None if own else self.finished(rollout)
        if done is None:
            return own
        given = [one.scored(rollout, scorer) for one in self.earlier]
        given.append(self._in_shared(lambda shared: shared.scored(rollout, _of(scorer, done[1]))))
        for found in given:
            if found is not None and found[:2] == done:
                self._own.keep_score(rollout, done[0], scorer, found[2])
                return found
        return None

    def keep_score(self, rollout: str, attempt: int, scorer: str, score: Score) -> None:
        self._own.keep_score(rollout, attempt, scorer, score)
        done = self._own.finished(rollout)
        if done is not None and done[0] == attempt:
            self._in_shared(lambda shared: shared.keep(rollout, *done))
            self._in_shared(lambda shared: shared.keep_score(rollout, attempt, _of(scorer, done[1]), score))


def _of(scorer: str, trajectory: Trajectory) -> str:
    """A scorer's name for one trajectory: two runs at once may have their own of the same attempt."""
    text = json.dumps(trajectory, sort_keys=True, default=as_plain)
    return f"{scorer} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
