"""Ctrl-C takes back what a command does next, and never a call that was sent."""

from __future__ import annotations

import asyncio
import signal

import pytest

from skillopt.process.waiting import run_gently


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_call_that_was_sent_to_whoever_waits_for_it(number: signal.Signals) -> None:
    """So does every signal that acts like it."""
    before = signal.signal(number, signal.default_int_handler)
    kept = []

    async def sent() -> None:
        await asyncio.sleep(0.05)
        kept.append("reply")

    async def main() -> None:
        call = asyncio.create_task(sent())
        asyncio.get_running_loop().call_later(0.01, signal.raise_signal, number)
        try:
            await asyncio.sleep(10)
        finally:
            await call

    with pytest.raises(KeyboardInterrupt):
        run_gently(main())
    assert kept == ["reply"]
    assert signal.signal(number, before) is signal.default_int_handler


def test_a_second_ctrl_c_ends_at_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for seconds in (0.01, 0.03):
            loop.call_later(seconds, signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        run_gently(main())


def test_a_result_comes_back_and_a_cancellation_of_its_own_is_no_ctrl_c() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    assert run_gently(asyncio.sleep(0, result=3)) == 3
    with pytest.raises(asyncio.CancelledError):
        run_gently(cancelled())
