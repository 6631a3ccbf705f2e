"""Decides whether a call may be paid: reservations before sending, settlement after, one budget for all
roles.

Each attempt is written down as *reserved* before it is sent, so a crash can lose no spending: what never
settled stays charged in full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from skillopt.errors import BudgetSpent, Stopped, note_paid
from skillopt.messages import Role, Usage
from skillopt.money.spending import Account, Amount, Budget, Entry, Settlement

MARGIN = Fraction(13, 10)
"""What is estimated is set aside with this margin."""
PLENTY = Fraction(16)
"""While the budget holds a call so many times it is sent with its whole output cap."""
TEST_STAGE = "test"
GATE_STAGE = "selection"
HEDGE_STAGE = "hedge"
"""Second askings of slow calls, whichever stage they belong to."""
TIME_IS_KEPT_EVERY = 1.0
"""Seconds."""


class Journal(Protocol):
    """Where entries are committed; what `open` returned from is there after `kill -9`."""

    def open(self, role: Role, stage: str, place: str, reserved: Amount) -> int: ...

    def close(self, entry: int, state: Settlement, charged: Amount, usage: Usage | None) -> None: ...

    def entries(self) -> Iterable[Entry]: ...

    def keep_time(self, seconds: float) -> None:
        """Note how long the run has taken over all its sessions."""
        ...


class Ledger:
    """The money of one run. Waiting calls hold nothing and are served in the order they came."""

    def __init__(
        self,
        budget: Budget,
        journal: Journal,
        elapsed: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`elapsed` tells the seconds the run has taken so far."""
        self.budget = budget
        self.elapsed = elapsed
        self._seconds_aside = 0.0
        self._journal = journal
        self._watchers: list[Callable[[Entry], None]] = []
        self._waiting: deque[_Waiting] = deque()
        self._set_aside = Amount()
        self._gate_aside = Amount()
        self._finishing = False
        self._stopped: Stopped | None = None
        self.account = Account()
        self.overruns: list[str] = []
        self._time_kept = float("-inf")
        self._is_timed = False
        for entry in journal.entries():
            self.account.take(entry, is_dead=True)
            self._name_overrun(entry)

    @property
    def spent(self) -> Amount:
        """Everything charged, reservations that never settled included."""
        return self.account.total().amount

    @property
    def in_flight(self) -> int:
        return len(self.account.open)

    def oldest_call(self) -> float:
        """Seconds that the oldest call in flight has been out."""
        opened = [entry.opened for entry in self.account.open.values() if entry.opened is not None]
        return self.elapsed() - min(opened) if opened else 0.0

    def watch(self, settled: Callable[[Entry], None]) -> None:
        """Call this with every attempt that settles from now on."""
        self._watchers.append(settled)

    def set_aside_for_test(self, amount: Amount, seconds: float = 0.0) -> None:
        """From now on training may not touch what the sealed test still needs, beside what it has had."""
        self._set_aside = amount + self._test_spent()
        self._seconds_aside = seconds

    def set_aside_for_gate(self, amount: Amount) -> None:
        """Reserve an amount for gate and test, so that the edits of a step can still be judged."""
        self._gate_aside = amount

    def open_for_test(self) -> None:
        """Training is over: what was set aside, and all else that is left, may be spent."""
        self._finishing = True
        self._pump()

    def part(self, name: str) -> Journal:
        """A journal for a part of the run with a budget of its own: what it pays is paid here too."""
        return _Part(self, name)

    def stop(self, reason: Stopped) -> None:
        """Grant nothing further; whoever waits is told why. What is outstanding still settles."""
        self._stopped = self._stopped or reason
        self._refuse_all(reason)

    def leaves(self, amount: Amount, seconds: float = 0.0) -> bool:
        """Whether what is not spent yet would pay for that much."""
        in_time = self.budget.seconds is None or self.elapsed() + seconds <= self.budget.seconds
        return in_time and self.budget.holds(self.spent + amount)

    async def reserve(
        self,
        role: Role,
        stage: str,
        place: str,
        need: Amount,
        *,
        usual: Amount | None = None,
        smaller: Sequence[Amount] = (),
        background: bool = False,
    ) -> Entry:
        """Commit a reservation, waiting while others are outstanding; raises `BudgetSpent` when it can never
        fit.

        `usual`, where it is given, is committed instead of `need` unless plenty is left. The first of
        `smaller` that fits is committed where nothing is outstanding that could make room.
        """
        if self._stopped is not None:
            raise self._stopped
        granted: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(role, stage, place, need, usual, smaller, granted)
        found = None if self._waiting else self._first_fitting(waiting)
        if found is not None:
            return self._open(role, stage, place, found)
        if background:
            raise BudgetSpent("background work waits for the end of the run")
        self._waiting.append(waiting)
        self._pump()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.withdraw(granted.result())
            self._pump()
            raise

    def withdraw(self, entry: Entry) -> None:
        """Close an attempt that was granted and never sent."""
        self._close(replace(entry, state="refused", charged=Amount()))

    def settle(self, entry: Entry, usage: Usage | None, charged: Amount | None) -> None:
        """Close an attempt: with its usage; or unreported, which stays charged at its reservation unless it
        is known to have cost less.
        """
        if usage is None or charged is None:
            self._close(replace(entry, state="unreported", charged=charged or entry.charged))
            return
        settled = replace(entry, state="settled", charged=charged, usage=usage)
        self._name_overrun(settled)
        self._close(settled)

    def refuse(self, entry: Entry) -> None:
        """Close an attempt that an HTTP error status refused: one call, no tokens."""
        self._close(replace(entry, state="refused", charged=Amount(calls=1)))

    def _keep_time(self) -> None:
        """Note the elapsed time: a session that is killed has used up its minutes too."""
        elapsed = self.elapsed()
        if elapsed - self._time_kept >= TIME_IS_KEPT_EVERY * 0.9:  # a timer may be a little early
            self._time_kept = elapsed
            self._journal.keep_time(elapsed)

    def _watch_time(self) -> None:
        """Note the elapsed time every second for as long as a call is under way."""
        self._is_timed = bool(self.account.open)
        if self._is_timed:
            with suppress(Stopped):  # nobody hears a timer: the call that is under way meets the same disk
                self._keep_time()
            asyncio.get_running_loop().call_later(TIME_IS_KEPT_EVERY, self._watch_time)

    def _open(self, role: Role, stage: str, place: str, need: Amount) -> Entry:
        number = self._journal.open(role, stage, place, need)
        entry = Entry(
            id=number,
            role=role,
            stage=stage,
            place=place,
            state="open",
            charged=need,
            reserved=need.tokens,
            opened=self.elapsed(),
        )
        self.account.take(entry)
        if self._is_timed:
            self._keep_time()
        else:
            self._watch_time()
        return entry

    def _close(self, entry: Entry) -> None:
        self._journal.close(entry.id, entry.state, entry.charged, entry.usage)
        self.account.take(entry)
        note_paid(0 if entry.state == "refused" else entry.charged.calls)
        self._keep_time()
        for watcher in self._watchers:
            watcher(entry)
        self._pump()

    def _name_overrun(self, entry: Entry) -> None:
        if entry.state == "settled" and entry.charged.tokens > entry.reserved:
            self.overruns.append(
                f"{entry.place} used {entry.charged.tokens} tokens, {entry.reserved} were reserved"
            )

    def _test_spent(self) -> Amount:
        return self.account.total(TEST_STAGE).amount

    def _fits(self, need: Amount, stage: str) -> bool:
        if not self.budget.is_limited:
            return True
        if self._is_over():
            return False
        if stage == TEST_STAGE and not self._finishing:  # early test work lives inside what was set aside
            rest = self._set_aside - self._test_spent() - need
            return rest.floored() == rest and self.budget.holds(self.spent + need)
        return self.budget.holds(sum(self._aside(stage).values(), self.spent + need))

    def _is_over(self) -> bool:
        """Whether the time is up."""
        aside = 0.0 if self._finishing else self._seconds_aside
        return self.budget.seconds is not None and self.elapsed() >= self.budget.seconds - aside

    def _aside(self, stage: str) -> dict[str, Amount]:
        """What a call of a stage must leave, by what it is for."""
        if self._finishing:
            return {}
        aside = {"the test": (self._set_aside - self._test_spent()).floored()}
        return aside if stage == GATE_STAGE else {**aside, "a last gate": self._gate_aside}

    def _pump(self) -> None:
        while self._waiting:
            head = self._waiting[0]
            if head.granted.done():
                self._waiting.popleft()
            elif (need := self._first_fitting(head)) is not None:
                self._waiting.popleft()
                head.granted.set_result(self._open(head.role, head.stage, head.place, need))
            elif self.account.open:
                return
            else:
                self._refuse_all(self._is_spent(head))

    def _first_fitting(self, waiting: _Waiting) -> Amount | None:
        wanted = [waiting.need, *(() if self.account.open else waiting.smaller)]
        if waiting.usual is not None and not self._fits(waiting.need.times(PLENTY), waiting.stage):
            wanted = [waiting.usual]
        return next((one for one in wanted if self._fits(one, waiting.stage)), None)

    def _is_spent(self, waiting: _Waiting) -> BudgetSpent:
        """Why nothing further is granted; what was spent is said once, at the end of a run."""
        aside = self._aside(waiting.stage)
        named = [name for name, amount in aside.items() if amount != Amount()]
        kept = f" beside what is set aside for {' and '.join(named)}" if named else ""
        if self._is_over():
            self._journal.keep_time(
                self.elapsed()
            )  # without it the next session would have a rest of a second
            why = f"{self.elapsed() / 60:.4g} minutes have passed{kept and ', and the rest is set aside'}"
        else:
            least = waiting.usual or [waiting.need, *waiting.smaller][-1]
            lacks = self.budget.lacks(least, sum(aside.values(), self.spent))
            why = f"the next call needs {lacks or 'more than its share'}{kept}"
        return BudgetSpent(
            f"The budget of {self.budget.describe()} does not go further: {why}. Everything paid is kept;"
            " raise the budget and run the same command to go on."
        )

    def _refuse_all(self, reason: Stopped) -> None:
        for waiting in self._waiting:
            if not waiting.granted.done():
                waiting.granted.set_exception(reason)
        self._waiting.clear()


class _Part:
    """Entries under a name of their own in the ledger of a whole run."""

    def __init__(self, whole: Ledger, name: str) -> None:
        self._whole = whole
        self._prefix = f"{name}/"

    def open(self, role: Role, stage: str, place: str, reserved: Amount) -> int:
        return self._whole._open(role, stage, self._prefix + place, reserved).id

    def close(self, entry: int, state: Settlement, charged: Amount, usage: Usage | None) -> None:
        opened = self._whole.account.open[entry]
        self._whole._close(replace(opened, state=state, charged=charged, usage=usage))

    def entries(self) -> Iterable[Entry]:
        return filter(None, map(self._own, self._whole._journal.entries()))

    def _own(self, entry: Entry) -> Entry | None:
        """An entry under the name that the part gave it; None where it is not of this part."""
        if not entry.place.startswith(self._prefix):
            return None
        return replace(entry, place=entry.place[len(self._prefix) :])

    def keep_time(self, seconds: float) -> None:
        self._whole._journal.keep_time(seconds)


@dataclass(frozen=True, slots=True)
class _Waiting:
    role: Role
    stage: str
    place: str
    need: Amount
    usual: Amount | None
    smaller: Sequence[Amount]
    granted: asyncio.Future[Entry]
