"""Rows of a stage under way: they come in as they finish, are read in order, and close as one fact; or not at
all, where an outage keeps them from being measured.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from skillopt.errors import SYSTEMIC_KINDS, ProviderDown, Stopped, UserError, root_of
from skillopt.evaluation.runner import Evaluator, PlannedRow
from skillopt.events import Arrived, Row, StageClosed, StageOpened
from skillopt.events.step import Step
from skillopt.money import TEST_STAGE
from skillopt.tasks.rollout import Invalid, Rollout

MOST_LOST = Fraction(1, 10)
"""The share of a stage, of val or of test that may be lost without the measurement being worthless."""


class Breaker:
    """Stops a stage that is not being measured.

    More than 10 % of its rows (at least two) lost to an outage, a broken request or scorer, or all to
    whatever: it does not close, so that the same command can measure it when the cause is gone.
    """

    def __init__(self, stage: str, total: int = 0) -> None:
        self._stage = stage
        self._total = total
        self._lost: list[Invalid] = []

    def expect(self, rows: int) -> None:
        """Add `rows` to the number of rows that belong to the stage."""
        self._total += rows

    def note(self, outcome: Rollout) -> None:
        """Count a row; raises `ProviderDown` or `UserError` with every cause as soon as the stage is lost."""
        if not isinstance(outcome, Invalid):
            return
        self._lost.append(outcome)
        systemic = sum(row.kind in SYSTEMIC_KINDS for row in self._lost)
        if systemic >= 2 and Fraction(systemic, self._total) > MOST_LOST:
            raise self._down()

    def close(self, *, may_stay_open: bool = False) -> None:
        """Nothing more will come: a stage without a single measurement is lost too.

        A gate may stay open where the target's replies were to blame: its verdict is then inconclusive.
        """
        lost = [row for row in self._lost if not may_stay_open or row.kind in SYSTEMIC_KINDS]
        if lost and len(lost) >= self._total:
            raise self._down()

    def _down(self) -> Stopped:
        if own := broken_code(self._lost, f"{self._total} rows of stage {self._stage!r}"):
            return own
        counted = Counter(f"{row.kind}: {row.detail}" for row in self._lost)
        listed = "\n".join(f"  {count} x {cause}" for cause, count in sorted(counted.items()))
        return ProviderDown(
            f"Stage {self._stage!r} cannot be measured: {len(self._lost)} of {self._total} rows were"
            f" lost.\n{listed}\nNo score was made of it and everything paid is kept. Run the same command"
            " again when the cause is gone."
        )


def broken_code(lost: Sequence[Invalid], measured: str) -> UserError | None:
    """The stop of a measurement that a person's own code spoils; None where anything else does so too."""
    own = [row.error for row in lost if row.error is not None]
    if not own or any(row.error is None and row.kind in SYSTEMIC_KINDS for row in lost):
        return None
    places: dict[str, list[Invalid]] = {}
    for row in lost:
        places.setdefault(row.error.where if row.error else row.detail, []).append(row)
    listed = "\n".join(f"  {len(rows)} x {rows[0].kind}: {rows[0].detail}" for rows in places.values())
    error = UserError(
        f"Your own code does not work: {len(lost)} of {measured} were lost.\n{listed}\n"
        "No score was made of it and everything paid is kept. Correct it and run the same command again."
    )
    error.__cause__ = root_of(own[0])
    return error


@dataclass(eq=False)
class Evaluation:
    """One skill on some rows. A stage that an outage spoils does not close: it raises, and nothing of it is a
    fact.

    Its rows are sent at once, or with `ahead` so many at a time, and no more than half as many again beyond
    the one that is read: a slow row leaves no slot empty. With `ahead` nothing is sent before the reader
    comes to a row that is not known, as those that are may be all that it needs. It ends with `close`, when
    all rows are in, or with `conclude`, which withdraws what was not read.
    """

    evaluator: Evaluator
    step: Step
    skill: str
    rows: Sequence[PlannedRow]
    _: KW_ONLY
    stage: str
    ahead: int | None = None
    tries: int = 1
    """How often a row is asked before it stays invalid."""
    in_empty_slots: bool = False
    """Whether it takes only slots that nobody waits for."""
    background: bool = False
    """Whether it besides never waits for money and is asked once."""
    begun: Mapping[tuple[str, int], asyncio.Future[Rollout]] | None = None
    """Rows that are taken over from an evaluation of the same skill."""
    resumes: bool = True
    """False where running again is a new measurement, not the same stage: lost rows are tried anew."""
    tells_rows: bool = True
    """False where somebody else writes the rows down, as the sealed test does."""
    breaker: Breaker | None = None
    """Counts the rows of several small evaluations together; its owner closes it."""

    def __post_init__(self) -> None:
        self._futures: list[asyncio.Future[Rollout]] = []
        self._read = 0
        self._has_to_ask = self.ahead is None
        self._is_over = False
        planned, self.rows = self.rows, ()
        self._open(planned)

    def arriving(self, index: int) -> asyncio.Future[Rollout]:
        """The rollout of one row, to be awaited."""
        return self._futures[index]

    async def next(self) -> Rollout | None:
        """The next rollout in planned order, or None after the last; sends further rows as far as it may."""
        self._has_to_ask |= self._read == len(self._futures)
        self._send()
        if self._read == len(self.rows):
            return None
        outcome = await self._futures[self._read]
        self._read += 1
        return outcome

    def arrived(self) -> list[Rollout]:
        """The rollouts that are in, in planned order, also of a stage that was stopped."""
        ended = (future for future in self._futures if future.done() and not future.cancelled())
        return [one.result() for one in ended if one.exception() is None]

    def extend(self, rows: Sequence[PlannedRow]) -> None:
        """Further rows for the same stage, after those so far were read."""
        self._breaker.close(may_stay_open=True)
        self._open(rows)

    async def close(
        self, check: Callable[[Sequence[Rollout]], None] = lambda outcomes: None
    ) -> tuple[Rollout, ...]:
        """All rollouts in planned order; from here on they are facts of the run, unless `check` raises."""
        try:
            if self._futures:
                await asyncio.wait(self._futures, return_when=asyncio.FIRST_EXCEPTION)
            for future in self._futures:
                if future.done():
                    future.result()  # the first failure ends the stage, without waiting for the slow ones
            outcomes = tuple([future.result() for future in self._futures])
            if self.breaker is None:
                self._breaker.close()
            check(outcomes)
        except BaseException:  # whatever ends the stage, also Ctrl-C: its other rows must not go on spending
            self.cancel()
            raise
        return self._closed(outcomes)

    def conclude(self) -> tuple[Rollout, ...]:
        """End the stage with the rows that were read."""
        self._breaker.close(may_stay_open=True)
        self.cancel()
        return self._closed(tuple(future.result() for future in self._futures[: self._read]))

    def cancel(self) -> None:
        """Withdraw what was not sent; what was sent still arrives and is stored."""
        self._is_over = True
        for future in self._futures:
            future.cancel()

    def hand_over(self) -> dict[tuple[str, int], asyncio.Future[Rollout]]:
        """Withdraw the rows that have no slot yet; those that have one go on, and are awaited elsewhere."""
        begun = {
            (row.task.id, row.draw): future
            for row, future in zip(self.rows, self._futures, strict=False)
            if self.evaluator.is_running(future)
        }
        self._is_over = True
        for future in set(self._futures) - set(begun.values()):
            future.cancel()
        return begun

    async def settle(self) -> None:
        """Wait until every row has ended, however it did."""
        if self._futures:
            await asyncio.wait(self._futures)

    def _open(self, rows: Sequence[PlannedRow]) -> None:
        self.rows = (*self.rows, *rows)
        self._breaker = self.breaker or Breaker(self.stage)
        self._breaker.expect(len(rows))
        if rows and not (self.background or self.in_empty_slots):
            self.step.emit(StageOpened(place=self.step.place, stage=self.stage, total=len(rows)))
        self._send()

    def _send(self) -> None:
        while len(self._futures) < len(self.rows) and not self._is_full():
            row = self.rows[len(self._futures)]
            known = None if self._has_to_ask else self._known(row)
            if known is None and not self._has_to_ask:
                return
            future = asyncio.ensure_future(self._roll_out(row, known))
            future.add_done_callback(self._after_row)
            self._futures.append(future)

    def _is_full(self) -> bool:
        """Whether the slots are taken, or enough was sent beyond a row that is slow to come in."""
        if self.ahead is None:
            return False
        unread = self._futures[self._read :]  # read ones are done; of a done one nobody may have heard yet
        return sum(not future.done() for future in unread) >= self.ahead or 2 * len(unread) >= 3 * self.ahead

    def _after_row(self, future: asyncio.Future[Rollout]) -> None:
        # Who closes it hears of a failure.
        is_measured = not future.cancelled() and future.exception() is None
        if is_measured and not self._is_over:
            self._send()

    def _known(self, row: PlannedRow) -> Rollout | None:
        place = self.step.place.at(self.stage) if self.resumes else None
        return self.evaluator.known(self.skill, row, place)

    async def _roll_out(self, row: PlannedRow, known: Rollout | None) -> Rollout:
        if (known := known or self._known(row)) is not None:
            self._emit_arrived(known, resumed=True)
            self._breaker.note(known)
            return known
        begun = (self.begun or {}).get((row.task.id, row.draw))
        after: int | None = None
        for _ in range(self.tries):
            outcome = await (begun or self._measure(row, after))
            self._emit_arrived(outcome, resumed=False)
            if not isinstance(outcome, Invalid) or outcome.kind == "too_long":  # asking again helps nothing
                break
            after, begun = outcome.attempt, None
        self._breaker.note(outcome)
        return outcome

    def _measure(self, row: PlannedRow, after: int | None) -> Coroutine[Any, Any, Rollout]:
        return self.evaluator.measure(
            self.skill,
            row,
            stage=self.stage,
            background=self.background,
            in_empty_slots=self.in_empty_slots,
            after=after,
        )

    def _emit_arrived(self, outcome: Rollout, resumed: bool) -> None:
        """Tell watchers; of the sealed test they learn that a row is in, not how it went."""
        is_sealed = self.stage == TEST_STAGE
        self.step.emit(
            Arrived(
                stage=self.stage,
                hard=None if is_sealed or isinstance(outcome, Invalid) else outcome.score.hard,
                invalid=outcome.kind if isinstance(outcome, Invalid) and not is_sealed else None,
                resumed=resumed,
            )
        )

    def _closed(self, outcomes: tuple[Rollout, ...]) -> tuple[Rollout, ...]:
        place = self.step.place.at(self.stage)
        rows = zip(self.rows, outcomes, strict=False)  # a concluded stage has unread rows
        self.evaluator.close_invalid(self.skill, place, rows)
        if self.tells_rows:
            facts = [logged_row(outcome) for outcome in outcomes]
            self.step.emit(StageClosed(id=str(place), place=self.step.place, stage=self.stage, rows=facts))
        return outcomes


def logged_row(outcome: Rollout) -> Row:
    """A rollout as the log tells it."""
    about: dict[str, Any] = {"task": outcome.task_id, "draw": outcome.draw, "attempt": outcome.attempt}
    about["target"] = outcome.target
    if isinstance(outcome, Invalid):
        return Row(**about, invalid=outcome.kind, detail=outcome.detail)
    did = outcome.trajectory
    return Row(
        **about,
        hard=outcome.score.hard,
        soft=outcome.score.soft,
        failure=did.failure,
        rollout=outcome.key,
        tokens=None if did.usage is None else did.usage.total,
        seconds=did.seconds,
    )


def too_many_lost(lost: Collection[str], tasks: Collection[str]) -> bool:
    """Whether what is left says nothing of the split: more than a tenth of it is lost, or there is none."""
    return not tasks or Fraction(len(lost), len(tasks)) > MOST_LOST
