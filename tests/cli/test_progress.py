"""What a person sees while a run works."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from _loopback import LoopbackProvider, world_answers
from cli._commands import SMALL
from runs._log import record, state
from skillopt.cli._console import say
from skillopt.cli._progress import LiveView, PlainLines, View
from skillopt.config.load import load
from skillopt.events import (
    Answered,
    Arrived,
    Checkpoint,
    Event,
    Notice,
    Reflected,
    RunStarted,
    Spending,
    StageOpened,
    Updated,
)
from skillopt.events.records import ReopenedRecord
from skillopt.money import Amount
from skillopt.run import open_run, prepare, train
from skillopt.runs.log import read_events
from skillopt.runs.status import RunStatus


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def status(clock: Clock) -> RunStatus:
    status = RunStatus(epochs=2, clock=clock)
    counts = {"train": 20, "val": 10, "test": 30}
    status(
        RunStarted(
            id="run",
            identity="x",
            benchmark="searchqa",
            target="t",
            optimizer="o",
            simulated=False,
            steps=4,
            counts=counts,
        )
    )
    return status


def checkpoint(kind: Any, step: int, record: Any = None, at: float = 0.0) -> Checkpoint:
    time = datetime.fromtimestamp(at, timezone.utc).isoformat()
    return Checkpoint(id=f"{kind}/{step}", time=time, kind=kind, state=state(step=step), record=record)


def step(number: int, action: str = "reject", *, took: float = 60.0, at: float = 0.0) -> Checkpoint:
    told = record(number, action=action, why="because", wall_time_s=took)
    return checkpoint("step", number, told, at)


def shown(view: Any, console: Console) -> str:
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def console(**options: Any) -> Console:
    return Console(file=io.StringIO(), width=200, highlight=False, **options)


def arrive(status: RunStatus, number: int, stage: str) -> None:
    for _ in range(number):
        status(Arrived(stage=stage, hard=1.0, invalid=None, resumed=False))


def test_the_stage_counts_its_rows_and_not_those_of_the_seeds_early_test(status: RunStatus) -> None:
    status(checkpoint("baseline", 0))
    status(StageOpened(place="e1/s1", stage="rollout", total=10))
    arrive(status, 4, "rollout")
    arrive(status, 7, "test")
    assert (status.position(), status.rows()) == ("epoch 1/2, step 1/4, rollout", "4/10 rows")
    arrive(status, 6, "rollout")
    assert status.position().endswith("reflect")
    status(Reflected(id="x", place="e1/s1", patches=[]))
    assert status.position().endswith("aggregate")


def test_two_arms_side_by_side_are_one_stage(status: RunStatus) -> None:
    for name in ("seed", "best"):
        status(StageOpened(place=f"test/{name}", stage="test", total=30))
    arrive(status, 45, "test")
    assert (status.position(), status.rows()) == ("sealed test", "45/60 rows")


def test_an_unknown_cost_is_unknown_and_a_known_one_is_not(status: RunStatus) -> None:
    out = console()
    view = PlainLines(status, out, clock=lambda: 0.0)
    view(Spending(calls=3, tokens=1200, usd=None, in_flight=2))
    view(step(1))
    view(Spending(calls=4, tokens=1300, usd=0.0123, in_flight=0))
    view(step(2))
    first, second = shown(view, out).splitlines()
    assert "3 calls, 1,200 tokens, cost unknown, 2 in flight" in first
    assert "cost $0.0123" in second


async def test_tokens_shown_are_those_spent_and_not_those_reserved(tmp_path: Path) -> None:
    told: list[Spending] = []

    def hear(event: Event) -> None:
        if isinstance(event, Spending):
            told.append(event)

    async with LoopbackProvider(world_answers(), latency=lambda call: 0.01) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=world",
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.num_epochs=1",
            *SMALL,
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run", sinks=[hear]) as opened:
            result = await train(opened)
        assert max(one.in_flight for one in told) > 1
        tokens = [one.tokens for one in told]
        assert tokens == sorted(tokens)
        assert tokens[-1] == result.summary["spending"]["tokens"] == provider.tokens


def test_steps_that_are_open_again_are_not_counted(status: RunStatus) -> None:
    for number, action in ((1, "accept_new_best"), (2, "inconclusive"), (3, "inconclusive")):
        status(step(number, action))
    status(checkpoint("reopened", 1, ReopenedRecord(from_step=2)))
    assert status.verdicts() == "1 accepted"


def test_plain_lines_speak_now_and_then_while_rows_come_in(status: RunStatus, clock: Clock) -> None:
    out = console()
    view = PlainLines(status, out, clock=clock)
    for second in range(100):
        clock.now = float(second)
        view(Arrived(stage="rollout", hard=1.0, invalid=None, resumed=False))
    assert len(shown(view, out).splitlines()) == 3


class TimersKept(asyncio.SelectorEventLoop):
    """An event loop whose timers are run by hand."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.timers.append((self.clock.now + delay, partial(callback, *args)))

    def run_next(self) -> None:
        ((self.clock.now, callback),) = self.timers
        self.timers.clear()
        self.call_soon(callback)
        self.call_soon(self.stop)
        self.run_forever()


def test_plain_lines_speak_every_half_minute_while_a_call_is_out(status: RunStatus, clock: Clock) -> None:
    out, loop = console(), TimersKept(clock)
    view = PlainLines(status, out, clock=clock)
    status.reserved, status.oldest_call = lambda: (1, 60), clock

    async def begin() -> None:
        view.start()

    loop.run_until_complete(begin())
    clock.now = 10.0
    view.say("Something else.")
    for _ in range(4):
        loop.run_next()
    loop.close()
    lines = shown(view, out).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["0:10", "0:40", "1:10", "1:40"]
    assert "1 in flight for 1:10" in lines[2]


async def test_a_run_that_is_followed_tells_how_long_its_oldest_call_has_been_out(
    status: RunStatus, tmp_path: Path
) -> None:
    job = prepare(
        load(None, flags={}, options=["env.name=world", "model.target=world"], environ={}, cwd=tmp_path)
    )
    async with open_run(job, tmp_path / "run") as opened:
        PlainLines(status, console()).follow(opened)
        assert (status.reserved()[0], status.oldest_call()) == (0, 0.0)
        await opened.ledger.reserve("target", "rollout", "one", Amount(calls=1))
        began = opened.ledger.elapsed()
        await opened.ledger.reserve("target", "rollout", "two", Amount(calls=1))
        assert status.reserved()[0] == 2
        assert status.oldest_call() >= opened.ledger.elapsed() - began


def test_a_resumed_run_is_shown_from_where_it_stands(finished: Path, clock: Clock) -> None:
    events = list(read_events(finished / "events.jsonl"))
    status = RunStatus(epochs=3, clock=clock)
    out = console()
    PlainLines(status, out, clock=clock).start(events[:30])
    assert "Going on after step" in shown(None, out)
    assert status.is_simulated


def test_a_silent_view_still_warns() -> None:
    out = console()
    view = View(out)
    view(Notice(text="nothing much"))
    view(Notice(text="take care", level="warning"))
    view(step(1))
    assert shown(view, out) == "warning: take care\n"


def test_the_live_view_says_simulated_and_leaves_the_terminal_clean(clock: Clock) -> None:
    out = console(force_terminal=True)
    view = LiveView(RunStatus(epochs=2, clock=clock), out)
    view.start([])
    view(
        RunStarted(
            id="run",
            identity="x",
            benchmark="world",
            target="world",
            optimizer="world",
            simulated=True,
            steps=4,
            counts={},
        )
    )
    view(step(1, "accept_new_best"))
    view(Spending(calls=10, tokens=900, usd=None, in_flight=0, planned=40.0))
    view._live.refresh()
    view.close()
    said = shown(view, out)
    for words in ("simulated", "step 1/4: ", "accepted", "cost unknown", "in flight", "about"):
        assert words in said, words
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")  # the cursor is back


def answered(number: int, prompt: str = "How much is 1 + 1?") -> Answered:
    return Answered(
        task=f"t{number}",
        prompt=prompt,
        answer="Two, I think.",
        expected="2",
        hard=0.0,
        feedback="Expected 2.",
    )


def test_the_first_three_answers_are_shown_before_more_is_paid_and_no_further_ones(status: RunStatus) -> None:
    out = Console(file=io.StringIO(), width=80, highlight=False)
    view = PlainLines(status, out, clock=lambda: 0.0)
    for number in range(5):
        view(answered(number, "word " * 40))
    lines = shown(view, out).splitlines()
    assert len(lines) == 10 and lines[1].endswith("word ...") and max(map(len, lines)) <= 80
    assert lines[2].split() == ["answered", "Two,", "I", "think."]
    assert lines[3].split() == ["score", "0", "Expected", "2."]


def test_a_run_that_goes_on_shows_no_first_answers(status: RunStatus) -> None:
    out = console()
    view = PlainLines(status, out, clock=lambda: 0.0)
    view.start([Notice(text="begun")])
    view(answered(1))
    assert "answered" not in shown(view, out)


def test_a_round_inside_a_run_is_seen_at_work(status: RunStatus) -> None:
    status(StageOpened(place="baseline", stage="selection", total=10, part="round 1 of 3"))
    arrive(status, 4, "selection")
    assert (status.position(), status.rows()) == ("round 1 of 3, baseline", "4/10 rows")
    assert status.left_in_words() == "time left known after the baseline"
    status(checkpoint("baseline", 0))
    status(StageOpened(place="e1/s1", stage="rollout", total=10))
    assert status.position() == "epoch 1/2, step 1/4, rollout"


LONG = "Case W000063, about units of a table, was answered with 1,234,567 words. " * 3


def test_long_lines_wrap_at_words_on_a_terminal_and_stay_whole_elsewhere() -> None:
    narrow = Console(file=io.StringIO(), width=40, highlight=False, force_terminal=True, color_system=None)
    say(narrow, Text(f"  prompt    {LONG}\n/a/path/that/is/longer/than/the/forty/columns/of/this"))
    lines = narrow.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines[:-1])) <= 40 and lines[-1].startswith("/a/") and lines[-1].endswith("this")
    assert all(line.startswith(" " * 12) for line in lines[1:-1])
    assert " ".join(" ".join(lines[:-1]).split()) == f"prompt {LONG.strip()}"
    piped = Console(file=io.StringIO(), width=40, highlight=False)
    say(piped, Text(LONG))
    assert piped.file.getvalue() == LONG + "\n"  # type: ignore[attr-defined]


def updated(digest: str, *edits: dict[str, str]) -> Updated:
    outcomes = [
        {"state": "applied", "reason": "", "edit": {**one, "id": str(at)}} for at, one in enumerate(edits)
    ]
    return Updated.model_validate(
        {"id": digest, "place": "e1/s1", "digest": digest, "skill": digest, "outcomes": outcomes}
    )


def test_learned_lines_are_shown_as_they_are_accepted_and_words_explained_once(status: RunStatus) -> None:
    out = console()
    view = PlainLines(status, out, clock=lambda: 0.0)
    view(updated("a" * 64, {"op": "append", "content": "- Round to two decimals."}))
    view(updated("b" * 64, {"op": "append", "content": "- Not taken."}))
    view(step(1, "reject"))
    assert "Round" not in shown(view, out), "it was rejected"
    more = [{"op": "append", "content": f"- Rule {n}."} for n in range(5)]
    view(updated("c" * 64, {"op": "replace", "target": "x", "content": "- Name the unit."}, *more))
    told = record(2, action="accept_new_best", why="0.9 > 0.2 on all 60 rows", candidate_hash="c" * 16)
    view(checkpoint("step", 2, told))
    view(Notice(text="12 rows are left."))
    lines = shown(view, out).splitlines()
    at = next(number for number, line in enumerate(lines) if "accepted" in line)
    assert lines[at + 1 : at + 3] == ["  ~ - Name the unit.", "  + - Rule 0."]
    assert lines[at + 6].strip() == "and 1 more: skillopt runs diff RUN"
    assert [line for line in lines if "a row is one answer" in line] == [lines[at + 7]], "once"
