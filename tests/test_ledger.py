"""The ledger: reserve before sending, settle after; first come, first served; what never settled stays
charged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest

from skillopt.errors import BudgetSpent, Interrupted, Stopped
from skillopt.messages import Role, Usage
from skillopt.money import GATE_STAGE, TEST_STAGE, Amount, Budget, Entry, Ledger, Settlement
from skillopt.money import ledger as money


class Journal:
    """Entries in memory, as `run.db` would keep them."""

    def __init__(self) -> None:
        self.rows: dict[int, Entry] = {}
        self.times: list[float] = []

    def open(self, role: Role, stage: str, place: str, reserved: Amount) -> int:
        number = len(self.rows) + 1
        self.rows[number] = Entry(
            id=number,
            role=role,
            stage=stage,
            place=place,
            state="open",
            charged=reserved,
            reserved=reserved.tokens,
        )
        return number

    def close(self, entry: int, state: Settlement, charged: Amount, usage: Usage | None) -> None:
        self.rows[entry] = replace(self.rows[entry], state=state, charged=charged, usage=usage)

    def entries(self) -> Iterable[Entry]:
        return list(self.rows.values())

    def keep_time(self, seconds: float) -> None:
        self.times.append(seconds)


def tokens(count: int) -> Amount:
    return Amount(calls=1, tokens=count)


async def reserve(
    ledger: Ledger, count: int, place: str = "p", stage: str = "rollout", *, background: bool = False
) -> Entry:
    return await ledger.reserve("target", stage, place, tokens(count), background=background)


async def asking(ledger: Ledger, count: int, place: str = "p", stage: str = "rollout") -> asyncio.Task[Entry]:
    """A reservation that waits in line."""
    task = asyncio.ensure_future(reserve(ledger, count, place, stage))
    await asyncio.sleep(0)
    return task


def settle(ledger: Ledger, entry: Entry, used: int) -> None:
    ledger.settle(entry, Usage(input_tokens=used, output_tokens=0), tokens(used))


async def test_a_reservation_is_committed_before_it_is_given() -> None:
    journal = Journal()
    entry = await reserve(Ledger(Budget(tokens=100), journal), 60)
    assert journal.rows[entry.id].state == "open"
    assert journal.rows[entry.id].charged == tokens(60)


async def test_what_does_not_fit_waits_while_something_is_outstanding_and_is_granted_when_it_settles_for_less() -> (
    None
):
    journal = Journal()
    ledger = Ledger(Budget(tokens=100), journal)
    first = await reserve(ledger, 60)
    waiting = await asking(ledger, 60)
    assert not waiting.done()
    assert len(journal.rows) == 1  # a waiting call holds nothing
    assert ledger.spent.tokens == 60
    settle(ledger, first, 40)
    assert (await waiting).charged == tokens(60)
    assert ledger.spent.tokens == 100


async def test_with_nothing_outstanding_the_budget_is_spent_for_everyone_in_line() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    first = await reserve(ledger, 60)
    waiting = [await asking(ledger, 60), await asking(ledger, 10)]
    settle(ledger, first, 50)
    for task in waiting:
        with pytest.raises(
            BudgetSpent, match="100 tokens does not go further: the next call needs 60 tokens, and 50 is left"
        ):
            await task
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 51)
    assert (await reserve(ledger, 50)).charged.tokens == 50


async def test_waiting_calls_are_served_in_the_order_they_came_even_if_a_later_one_would_fit() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    one, two = await reserve(ledger, 50, "a"), await reserve(ledger, 40, "b")
    large, small = await asking(ledger, 60, "large"), await asking(ledger, 10, "small")
    assert not small.done()  # it would fit, but the large one was first
    settle(ledger, two, 20)
    await asyncio.sleep(0)
    assert not large.done()
    settle(ledger, one, 0)
    assert ((await large).id, (await small).id) == (3, 4)


async def test_a_newcomer_does_not_overtake_the_line() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    first = await reserve(ledger, 90)
    large, newcomer = await asking(ledger, 50), await asking(ledger, 5)
    assert not newcomer.done()
    settle(ledger, first, 10)
    assert (await large).id < (await newcomer).id


async def test_a_cancelled_waiter_leaves_the_line_and_frees_those_behind_it() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    await reserve(ledger, 60)
    large, small = await asking(ledger, 80), await asking(ledger, 30)
    large.cancel()
    assert (await small).charged.tokens == 30
    with pytest.raises(asyncio.CancelledError):
        await large
    assert ledger.spent.tokens == 90


async def test_a_reservation_granted_to_one_who_was_cancelled_meanwhile_costs_nothing() -> None:
    journal = Journal()
    ledger = Ledger(Budget(calls=2, tokens=100), journal)
    first = await reserve(ledger, 60)
    waiting = await asking(ledger, 60)
    settle(ledger, first, 10)  # grants the waiter, which has not run yet
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ledger.spent == tokens(10)
    assert ledger.in_flight == 0
    assert journal.rows[2].charged == Amount()


async def test_unreported_stays_charged_in_full_and_refused_costs_one_call() -> None:
    journal = Journal()
    ledger = Ledger(Budget(), journal)
    lost, refused = await reserve(ledger, 60), await reserve(ledger, 70)
    ledger.settle(lost, None, None)
    ledger.refuse(refused)
    assert ledger.spent == Amount(calls=2, tokens=60)
    assert [row.state for row in journal.rows.values()] == ["unreported", "refused"]


async def test_more_than_reserved_is_counted_in_full_and_named_by_the_next_session_too() -> None:
    journal = Journal()
    ledger = Ledger(Budget(tokens=100), journal)
    settle(ledger, await reserve(ledger, 10, "e1/s1/merge"), 150)
    assert ledger.spent.tokens == 150
    named = ["e1/s1/merge used 150 tokens, 10 were reserved"]
    assert ledger.overruns == named
    assert Ledger(Budget(tokens=100), journal).overruns == named
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 0)


async def test_a_new_session_is_charged_with_all_that_the_journal_holds() -> None:
    journal = Journal()
    before = Ledger(Budget(tokens=1000), journal)
    settle(before, await reserve(before, 100), 30)
    await reserve(before, 200)  # in flight when the process died
    before.refuse(await reserve(before, 300))
    before.settle(await reserve(before, 40), None, None)
    after = Ledger(Budget(tokens=1000), journal)
    assert after.spent == before.spent == Amount(calls=4, tokens=270)
    assert after.in_flight == 0  # nobody will settle it: it must not keep others waiting
    with pytest.raises(BudgetSpent):
        await reserve(after, 731)


@pytest.mark.parametrize(
    ("budget", "fits"),
    [
        (Budget(calls=1), True),
        (Budget(tokens=10), True),
        (Budget(tokens=9), False),
        (Budget(usd=Fraction(1, 3)), True),
        (Budget(usd=Fraction(1, 3) - Fraction(1, 10**12)), False),
        (Budget(calls=1, tokens=10, usd=Fraction(1, 3)), True),
        (Budget(calls=1, tokens=9, usd=Fraction(1)), False),
    ],
)
async def test_every_limit_that_is_set_must_hold_exactly(budget: Budget, fits: bool) -> None:
    ledger = Ledger(budget, Journal())
    need = Amount(calls=1, tokens=10, usd=Fraction(1, 3))
    if fits:
        await ledger.reserve("target", "rollout", "p", need)
    else:
        with pytest.raises(BudgetSpent):
            await ledger.reserve("target", "rollout", "p", need)


async def test_an_unknown_price_never_fits_a_dollar_limit_and_makes_the_total_unknown() -> None:
    unknown = Amount(calls=1, tokens=1, usd=None)
    with pytest.raises(BudgetSpent):
        await Ledger(Budget(usd=Fraction(1)), Journal()).reserve("target", "rollout", "p", unknown)
    free = Ledger(Budget(calls=5), Journal())
    await free.reserve("target", "rollout", "p", unknown)
    assert free.spent.usd is None


# The test's share


async def test_what_is_set_aside_for_a_gate_is_for_rows_of_the_gate_alone() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    ledger.set_aside_for_gate(Amount(calls=5, tokens=40))
    settle(ledger, await reserve(ledger, 60), 60)
    with pytest.raises(BudgetSpent, match=r"beside what is set aside for a last gate"):
        await reserve(ledger, 1)
    settle(ledger, await reserve(ledger, 40, stage=GATE_STAGE), 40)
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 1, stage=GATE_STAGE)


async def test_training_may_not_touch_what_is_set_aside_and_the_test_may() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    ledger.set_aside_for_test(Amount(calls=5, tokens=40))
    settle(ledger, await reserve(ledger, 60), 60)
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 1)
    settle(ledger, await reserve(ledger, 25, stage=TEST_STAGE), 25)
    with pytest.raises(BudgetSpent):  # what the test has spent is no longer kept back, but it is spent
        await reserve(ledger, 1)
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 16, stage=TEST_STAGE)
    assert (await reserve(ledger, 15, stage=TEST_STAGE)).charged.tokens == 15


async def test_early_test_work_lives_inside_its_share_although_more_is_left() -> None:
    ledger = Ledger(Budget(tokens=1000), Journal())
    ledger.set_aside_for_test(Amount(calls=5, tokens=40))
    await reserve(ledger, 30, stage=TEST_STAGE, background=True)
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 11, stage=TEST_STAGE, background=True)


async def test_at_the_end_the_test_may_use_all_that_is_left() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    ledger.set_aside_for_test(Amount(calls=5, tokens=40))
    settle(ledger, await reserve(ledger, 50), 30)
    ledger.open_for_test()
    assert (await reserve(ledger, 70, stage=TEST_STAGE)).charged.tokens == 70


async def test_what_is_set_aside_anew_does_not_shrink_by_what_earlier_looks_spent() -> None:
    journal = Journal()
    before = Ledger(Budget(tokens=100), journal)
    before.set_aside_for_test(Amount(calls=5, tokens=40))
    settle(before, await reserve(before, 30, stage=TEST_STAGE), 30)
    after = Ledger(Budget(tokens=100), journal)
    after.set_aside_for_test(Amount(calls=5, tokens=40))
    assert (await reserve(after, 30)).charged.tokens == 30  # 100 - 30 spent - 40 kept back
    with pytest.raises(BudgetSpent):
        await reserve(after, 1, background=True)


async def test_calls_are_set_aside_like_tokens() -> None:
    ledger = Ledger(Budget(calls=3), Journal())
    ledger.set_aside_for_test(Amount(calls=2, tokens=10))
    settle(ledger, await reserve(ledger, 1), 1)
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 1)
    await reserve(ledger, 1, stage=TEST_STAGE)


async def test_background_work_is_refused_at_once_and_never_stands_in_line() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    ledger.set_aside_for_test(Amount(calls=9, tokens=30))
    first = await reserve(ledger, 70)
    waiting = await asking(ledger, 60)
    with pytest.raises(BudgetSpent, match="background"):  # it would fit, but somebody waits
        await reserve(ledger, 10, stage=TEST_STAGE, background=True)
    settle(ledger, first, 5)
    await waiting


async def test_without_a_limit_everything_fits_and_is_still_counted_by_role_and_stage() -> None:
    heard: list[Entry] = []
    ledger = Ledger(Budget(), Journal())
    ledger.watch(heard.append)
    settle(ledger, await reserve(ledger, 10**9, stage="rollout"), 7)
    settle(ledger, await ledger.reserve("optimizer", "merge", "m", tokens(5)), 3)
    totals = ledger.account.by_role_and_stage()
    assert {key: total.amount for key, total in totals.items()} == {
        ("target", "rollout"): tokens(7),
        ("optimizer", "merge"): tokens(3),
    }
    assert [entry.charged.tokens for entry in heard] == [7, 3]
    assert not ledger.budget.is_limited


async def test_a_storm_of_reservations_never_exceeds_the_budget() -> None:
    """Two hundred calls of changing size, thirty in flight, some refused, some lost, some cancelled."""
    ledger = Ledger(Budget(calls=120, tokens=4_000), Journal())
    seen = 0

    async def call(number: int) -> None:
        nonlocal seen
        entry = await reserve(ledger, 20 + number % 60, f"p{number}")
        seen = max(seen, ledger.spent.tokens)
        try:
            await asyncio.sleep(0.0001 * (number % 7))
        except asyncio.CancelledError:
            ledger.settle(entry, None, None)  # it was sent
            raise
        if number % 5 == 0:
            ledger.refuse(entry)
        elif number % 7 == 0:
            ledger.settle(entry, None, None)
        else:
            settle(ledger, entry, 10 + number % 13)

    tasks = [asyncio.ensure_future(call(number)) for number in range(200)]
    await asyncio.sleep(0.001)
    for task in tasks[::11]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert ledger.spent.calls <= 120
    assert seen <= 4_000
    assert any(isinstance(result, BudgetSpent) for result in results)
    assert all(
        result is None or isinstance(result, (BudgetSpent, asyncio.CancelledError)) for result in results
    )


async def test_a_stopped_ledger_grants_nothing_and_tells_whoever_waits() -> None:
    ledger = Ledger(Budget(tokens=100), Journal())
    under_way = await reserve(ledger, 80)
    waiting = asyncio.ensure_future(reserve(ledger, 50))
    await asyncio.sleep(0)
    ledger.stop(Interrupted("enough"))
    with pytest.raises(Interrupted):
        await waiting
    settle(ledger, under_way, 10)
    with pytest.raises(Interrupted):
        await reserve(ledger, 1)
    assert ledger.spent.tokens == 10


async def test_a_budget_in_time_ends_with_the_clock_and_keeps_back_what_the_test_needs():
    clock = [0.0]
    ledger = Ledger(Budget(seconds=100), Journal(), elapsed=lambda: clock[0])
    ledger.settle(await reserve(ledger, 5), Usage(input_tokens=2, output_tokens=3), tokens(5))
    ledger.set_aside_for_test(Amount(calls=10, tokens=100), seconds=30)
    clock[0] = 69.9
    ledger.settle(await reserve(ledger, 5), None, tokens(5))
    clock[0] = 70.0
    with pytest.raises(
        BudgetSpent, match=r"1.667 minutes does not go further: 1.167 minutes have passed, and the rest"
    ):
        await reserve(ledger, 5)
    ledger.open_for_test()
    ledger.settle(await reserve(ledger, 5, stage=TEST_STAGE), None, tokens(5))
    clock[0] = 100.0
    with pytest.raises(BudgetSpent):
        await reserve(ledger, 5, stage=TEST_STAGE)


async def test_the_moment_at_which_the_time_is_up_is_noted_however_short_ago_the_last_note_was() -> None:
    """Otherwise every further start would have the rest of a second, and send calls in it."""
    clock, journal = [9.5], Journal()
    whole = Ledger(Budget(seconds=10), journal, elapsed=lambda: clock[0])
    part = Ledger(Budget(seconds=10), whole.part("fold 1"), elapsed=lambda: clock[0])
    for ledger, now in ((whole, 10.0), (part, 10.1)):
        clock[0] = 9.5
        settle(ledger, await reserve(ledger, 1), 1)
        clock[0] = now
        with pytest.raises(BudgetSpent, match="minutes have passed"):
            await reserve(ledger, 1)
        assert journal.times[-1] == now


async def test_elapsed_time_is_noted_with_every_call_and_while_one_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is killed has used up the minutes it ran."""
    monkeypatch.setattr(money, "TIME_IS_KEPT_EVERY", 0.01)
    clock, journal = [7.0], Journal()
    ledger = Ledger(Budget(seconds=100), journal, elapsed=lambda: clock[0])
    under_way = await reserve(ledger, 5)
    assert journal.times == [7.0]
    clock[0] = 8.0
    await asyncio.sleep(0.05)
    assert journal.times[-1] == 8.0
    settle(ledger, under_way, 5)
    clock[0] = 9.0
    settle(ledger, await reserve(ledger, 5), 5)
    assert journal.times[-1] == 9.0


async def test_a_journal_that_cannot_note_the_time_ends_the_call_and_not_the_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FullDisk(Journal):
        def keep_time(self, seconds: float) -> None:
            super().keep_time(seconds)
            raise Stopped("run.db cannot be used: the disk is full.")

    monkeypatch.setattr(money, "TIME_IS_KEPT_EVERY", 0.01)
    clock, journal, unheard = [0.0], FullDisk(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    ledger = Ledger(Budget(seconds=100), journal, elapsed=lambda: clock[0])
    under_way = await reserve(ledger, 5)
    for clock[0] in (1.0, 2.0):
        await asyncio.sleep(0.05)
    assert journal.times == [0.0, 1.0, 2.0] and unheard == []
    clock[0] = 3.0
    with pytest.raises(Stopped, match="the disk is full"):
        settle(ledger, under_way, 5)
