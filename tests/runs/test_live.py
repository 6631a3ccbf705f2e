"""What a watcher outside sees of a run: the same as the run itself, as it happens, and nothing of the sealed
test too early.
"""

from __future__ import annotations

import asyncio
import json
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import SMALL
from runs._log import fold
from skillopt.config.load import load
from skillopt.errors import RunConflict
from skillopt.events import Arrived, Event, StageOpened
from skillopt.events import Spending as SpendingEvent
from skillopt.events.place import BASELINE
from skillopt.messages import Role, Usage
from skillopt.money import Amount, Entry, account_of
from skillopt.run import Result, open_run, prepare, train
from skillopt.runs.database import Database
from skillopt.runs.log import read_events
from skillopt.runs.notes import group_of
from skillopt.runs.reader import RunReader, RunReaders, find_run
from skillopt.runs.tail import DatabaseTail, LedgerView, StoredTexts
from skillopt.skill.store import Skills


class Looks:
    """A watcher that notes what it could have shown at every look."""

    def __init__(self, folder: Path) -> None:
        self.watcher = RunReader(folder)
        self.events: list[Event] = []
        self.states: list[str] = []
        self.stages: set[str] = set()
        self.most_in_flight = 0
        self.test_seen_before_the_end = False
        self.spent_as_told: set[bool] = set()
        self.roles_in_flight: set[tuple[str, str]] = set()

    def look(self) -> None:
        self.events += self.watcher.read()
        watcher = self.watcher
        if not self.states or self.states[-1] != watcher.state:
            self.states.append(watcher.state)
        self.stages |= {stage.name for stage in watcher.status.strip() if stage.state == "now"}
        self.most_in_flight = max(self.most_in_flight, watcher.spending.in_flight)
        self.roles_in_flight |= {(one.role, one.stage) for one in watcher.spending.flights()}
        facts = watcher.view()
        if facts is not None:
            told = (watcher.status.calls, watcher.status.tokens)
            self.spent_as_told.add((facts.spent.calls, facts.spent.tokens) == told)
        if facts is not None and not watcher.fold.tests and facts.test.comparison is not None:
            self.test_seen_before_the_end = True


async def train_watched(folder: Path, *, latency: float) -> tuple[Looks, Result]:
    looks = Looks(folder)
    looks.look()

    async def keep_looking() -> None:
        for _ in range(3000):
            looks.look()
            await asyncio.sleep(0.01)

    async with LoopbackProvider(world_answers(), latency=lambda call: latency) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=world",
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.batch_size=10",
            "env.workers=6",
            *SMALL,
        ]
        job = prepare(
            load(None, flags={}, options=[*options, "train.num_epochs=2"], environ={}, cwd=folder.parent)
        )
        watching = asyncio.ensure_future(keep_looking())
        try:
            async with open_run(job, folder) as opened:
                result = await train(opened)
        finally:
            watching.cancel()
    looks.look()
    return looks, result


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Looks, Result]:
    """A run that was watched from before its folder was there to its end."""
    return asyncio.run(train_watched(tmp_path_factory.mktemp("seen") / "later", latency=0.02))


@pytest.mark.slow
def test_a_run_is_seen_from_outside_as_it_happens(seen: tuple[Looks, Result]) -> None:
    looks, result = seen
    watcher = looks.watcher
    assert looks.states == ["waiting", "running", "finished"]
    assert {"baseline", "rollout", "reflect", "gate", "sealed test"} <= looks.stages
    assert 1 < looks.most_in_flight <= 40
    assert {
        ("target", "selection"),
        ("target", "rollout"),
        ("optimizer", "analyst_failure"),
    } <= looks.roles_in_flight
    assert not looks.test_seen_before_the_end
    assert looks.spent_as_told == {True}  # page and terminal, at every look
    decided = [event for event in looks.events if event.id is not None]
    assert decided == list(read_events(watcher.folder / "events.jsonl"))  # each once, in order
    paid = result.summary["spending"]
    assert (watcher.status.calls, watcher.status.tokens) == (paid["calls"], paid["tokens"])
    facts = watcher.view()
    assert facts is not None
    assert (facts.best, facts.claim) == (result.summary["best_gate_score"], result.summary["claim"])


@pytest.mark.slow
def test_rows_come_in_one_after_the_other_and_never_more_than_there_are(seen: tuple[Looks, Result]) -> None:
    looks, _ = seen
    opened = [event for event in looks.events if isinstance(event, StageOpened)]
    assert opened[0].place == BASELINE and opened[0].total == 20 * 2  # repeats fill up a small val split
    sizes = {
        str(event.place): event.total
        for event in opened
        if event.stage == "rollout" and event.place.scope == "step"
    }
    expected = {
        f"e{epoch}/s{3 * (epoch - 1) + number}": size
        for epoch in (1, 2)
        for number, size in ((1, 10), (2, 10), (3, 4))
    }
    assert sizes == expected  # 24 tasks in batches of 10
    total: dict[str, int] = {}
    done: dict[str, int] = {}
    for event in looks.events:
        if isinstance(event, StageOpened):
            group = group_of(event)
            total[group] = total.get(group, 0) + event.total
        elif isinstance(event, Arrived):
            done[group] = done.get(group, 0) + 1
    assert all(done[group] <= total[group] for group in done)
    assert any(number > 1 for number in done.values())
    of_test = [event.hard for event in looks.events if isinstance(event, Arrived) and event.stage == "test"]
    assert set(of_test) <= {None}  # that a test row is in, not how it went


@pytest.mark.slow
def test_facts_are_those_of_a_report(finished: Path) -> None:
    watcher = RunReader(finished)
    watcher.read()
    database = Database.reading(finished / "run.db")
    account = account_of(database.entries())
    database.shut()
    files: dict[str, Any] = {
        name: json.loads((finished / file).read_text())
        for name, file in (("config", "settings.json"), ("summary", "summary.json"))
    }
    skills = Skills(StoredTexts(finished / "run.db"))
    told = fold(read_events(finished / "events.jsonl"), skills, account=account, status="finished", **files)
    assert watcher.view() == told
    assert watcher.spending.account.by_role_and_stage() == account.by_role_and_stage()


def test_nothing_is_written_not_even_beside_the_database(finished: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in finished.rglob("*")}
    mode = stat.S_IMODE(finished.stat().st_mode)
    finished.chmod(0o500)
    try:
        watcher = RunReader(finished)
        watcher.read()
        watcher.view()
    finally:
        finished.chmod(mode)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in finished.rglob("*")} == before


def test_a_log_that_was_put_back_is_read_anew(finished: Path, tmp_path: Path) -> None:
    lines = (finished / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text("".join(lines))
    (tmp_path / "run.db").write_bytes((finished / "run.db").read_bytes())
    watcher = RunReader(tmp_path)
    watcher.read()
    (tmp_path / "events.jsonl").write_text("".join(lines[:20]))
    watcher.read()
    facts = watcher.view()
    assert watcher.decided == 20 and watcher.state == "stopped"
    assert facts is not None and facts.test.comparison is None


def test_a_call_that_died_with_its_process_is_charged_and_not_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    tail, spending = DatabaseTail(path), LedgerView(lambda: 0.0)

    def look() -> tuple[int, int]:
        news = tail.read(spending.account.open)
        assert news is not None
        spending.take(news.entries, news.session)
        return spending.in_flight, spending.settled().calls

    spending.is_at_work = True
    first = Database(path)
    first.begin_session()
    first.open("target", "rollout", "rollout/k.0/0", Amount(calls=1, tokens=100))
    assert look() == (1, 0)
    first.shut()  # killed: it never settles
    second = Database(path)
    second.begin_session()
    second.open("target", "rollout", "rollout/l.0/0", Amount(calls=1, tokens=100))
    assert look() == (1, 1)
    second.shut()
    spending.is_at_work = False
    assert (spending.in_flight, spending.flights(), spending.settled().calls) == (0, [], 2)


def test_an_unknown_price_makes_the_sum_unknown_and_never_smaller() -> None:
    spending = LedgerView(lambda: 0.0)
    spending.take([_entry(1, "target", "test", Fraction(1, 4))])
    assert spending.settled().usd == Fraction(1, 4)
    spending.take([_entry(2, "optimizer", "merge", None)])
    assert spending.settled().usd is None


def _entry(id: int, role: Role, stage: str, usd: Fraction | None) -> Entry:
    charged, usage = Amount(calls=1, tokens=10, usd=usd), Usage(input_tokens=6, output_tokens=4)
    return Entry(
        id=id, role=role, stage=stage, place="p", state="settled", charged=charged, reserved=10, usage=usage
    )


def test_one_reader_serves_all_and_does_not_read_more_often_than_it_must(finished: Path) -> None:
    now = [100.0]
    watched = RunReaders(every=1.0, keep=2, now=lambda: now[0])
    watcher = watched(finished)
    version, decided = watcher.version, watcher.decided
    assert decided and watched(finished) is watcher
    now[0] = 101.5
    assert watched(finished) is watcher and (watcher.version, watcher.decided) == (version, decided)
    for name in "abc":
        watched(finished / name)
    assert watched(finished) is not watcher  # forgotten, as others were looked at since


def test_a_damaged_log_is_told_at_every_look_and_never_shown_as_a_run_that_waits(
    finished: Path, tmp_path: Path
) -> None:
    lines = (finished / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text("".join([*lines[:4], "{\n", *lines[5:]]))
    watched = RunReaders(now=lambda: 1000.0)
    for _ in range(3):
        with pytest.raises(RunConflict, match="line 5"):
            watched(tmp_path)


def test_the_newest_run_below_a_folder_is_meant(finished: Path, tmp_path: Path) -> None:
    assert find_run(finished) == finished
    assert find_run(finished.parent) == finished
    with pytest.raises(Exception, match="There is no run in"):
        find_run(tmp_path)


def test_spending_is_told_as_an_event(finished: Path) -> None:
    events = RunReader(finished).read()
    told = [event for event in events if isinstance(event, SpendingEvent)]
    assert len(told) == 1 and told[0].in_flight == 0 and told[0].calls > 0
