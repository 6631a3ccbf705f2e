"""Reading a run as it grows: nothing twice, nothing half, and outside the same as inside."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import threading
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import SMALL
from runs._log import SEED, baseline, fold, record, six, started, state
from skillopt.config.load import load
from skillopt.errors import RunConflict
from skillopt.events import Arrived, Checkpoint, Event, Notice, RunStarted, StageClosed, StageOpened, Updated
from skillopt.events import Spending as SpendingEvent
from skillopt.events.place import BASELINE, Place
from skillopt.messages import Role, Usage
from skillopt.money import Amount, Entry, account_of
from skillopt.redact import Scrubber
from skillopt.run import Result, open_run, prepare, train
from skillopt.runs.database import Database
from skillopt.runs.log import Run, read_events
from skillopt.runs.notes import EVERY, LiveNote, LiveWriter, group_of
from skillopt.runs.reader import RunReader, RunReaders, find_run
from skillopt.runs.status import RunStatus
from skillopt.runs.tail import DatabaseTail, EventTail, LedgerView, StoredTexts
from skillopt.runs.words import LONGEST_MARKS, marks
from skillopt.skill.store import Skills

# --- tail


def notice(number: int) -> str:
    return Notice(id=f"n{number}", text=f"number {number}").model_dump_json() + "\n"


def test_a_log_is_read_once_and_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    tail = EventTail(log)
    assert (tail.gained(), list(tail.read())) == (0, [])  # not there yet
    whole, half = notice(1), notice(2)
    log.write_text(whole + half[:20])
    assert [event.id for event in tail.read()] == ["n1"]
    assert list(tail.read()) == [] and tail.gained() == 20
    log.write_text(whole + half)
    assert [event.id for event in tail.read()] == ["n2"]


def test_a_log_that_was_put_back_is_to_be_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(notice(1) + notice(2))
    tail = EventTail(log)
    assert len(list(tail.read())) == 2
    log.write_text(notice(1))
    assert tail.gained() is None
    log.unlink()
    assert tail.gained() is None


def test_a_line_of_another_program_is_named(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(notice(1) + '{"type": "weather"}\n')
    tail = EventTail(log)
    assert next(tail.read()).id == "n1"
    for _ in range(2):  # and again at the next look
        with pytest.raises(RunConflict, match="line 2"):
            list(tail.read())


def test_a_log_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunConflict, match=r"events\.jsonl cannot be read: Not a directory"):
        EventTail(tmp_path / "file" / "events.jsonl").gained()


def test_only_the_wanted_types_are_read(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    started = RunStarted(
        id="run", identity="x", benchmark="b", target="t", optimizer="o", simulated=False, steps=1, counts={}
    )
    broken = json.dumps({"id": "n", "time": "", "type": "notice", "nonsense": 1}, separators=(",", ":"))
    log.write_text(started.model_dump_json() + "\n" + broken + "\n")
    assert list(EventTail(log, only=["run_started"]).read()) == [started]


def test_an_attempt_is_told_when_it_opens_and_again_when_it_closes_and_not_in_between(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    tail = DatabaseTail(path)
    assert tail.read() is None
    database = Database(path)
    first = database.open("target", "rollout", "rollout/k.0/0", Amount(calls=1, tokens=100))
    news = tail.read()
    assert news is not None and [(one.id, one.state) for one in news.entries] == [(first, "open")]
    news = tail.read([first])
    assert news is not None and news.entries == []
    database.close(first, "settled", Amount(calls=1, tokens=7), Usage(input_tokens=5, output_tokens=2))
    second = database.open("target", "rollout", "rollout/l.0/0", Amount(calls=1, tokens=100))
    news = tail.read([first])
    assert news is not None
    assert {(one.id, one.state, one.charged.tokens) for one in news.entries} == {
        (first, "settled", 7),
        (second, "open", 100),
    }
    database.shut()


# --- live notes


STEP = Place.of_step(1, 1)


def opened(place: Place, total: int, stage: str = "rollout") -> StageOpened:
    return StageOpened(place=place, stage=stage, total=total)


def arrived(stage: str = "rollout", *, resumed: bool = False) -> Arrived:
    return Arrived(stage=stage, hard=1.0, invalid=None, resumed=resumed)


class Notes:
    def __init__(self) -> None:
        self.written: list[LiveNote] = []

    def note(self, name: str, value: str) -> None:
        self.written.append(LiveNote.model_validate_json(value))


def opened_run(folder: Path) -> Run:
    return Run(folder, {"a": 1}, scrubber=Scrubber([]))


def begun(folder: Path, *events: Event) -> None:
    with opened_run(folder) as open_folder:
        start = started(identity=open_folder.identity)
        for event in (start, *baseline(six(1, 0, 1, 0, 1, 0)), *events):
            open_folder.emit(event)


def test_a_stage_that_opened_and_each_sentence_once_are_lines_without_an_id(tmp_path: Path) -> None:
    for _ in range(2):  # taken up again: the stage opens again, the sentence is known
        begun(tmp_path, Notice(text="few tasks"), opened(STEP, 4))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert sum("few tasks" in line for line in lines) == 1
    assert sum('"stage_opened"' in line for line in lines) == 2
    assert all(event.id is not None for event in read_events(tmp_path / "events.jsonl"))
    assert len(list(read_events(tmp_path / "events.jsonl"))) == len(lines) - 3


def test_nothing_is_written_before_a_run_began_nor_into_one_that_is_finished(tmp_path: Path) -> None:
    with opened_run(tmp_path) as open_folder:
        open_folder.emit(opened(STEP, 4))
    assert not (tmp_path / "events.jsonl").read_bytes()
    begun(tmp_path, Checkpoint(id="finish/finish", kind="finish", state=state(finished=True)))
    before = (tmp_path / "events.jsonl").read_bytes()
    with opened_run(tmp_path) as open_folder:
        open_folder.emit(opened(Place.of_test(1, 1), 4, "test"))
        open_folder.emit(Notice(text="again"))
    assert (tmp_path / "events.jsonl").read_bytes() == before


def test_rows_are_counted_and_the_count_is_written_now_and_then() -> None:
    notes, now = Notes(), [0.0]
    writer = LiveWriter(notes.note, clock=lambda: now[0])
    writer.slowed = lambda: "4 calls a second"
    writer(opened(STEP, 500))
    for number in range(500):
        now[0] += EVERY / 100
        writer(arrived(resumed=number < 50))
        writer(arrived("test"))  # the seed's test in idle slots: nobody watches that
    assert 5 <= len(notes.written) <= 7
    last = notes.written[-1]
    assert (last.stage, last.slowed) == ("rollout", "4 calls a second")
    assert 400 < last.done <= 500 and last.fresh == last.done - 50
    writer(opened(Place.of_step(1, 2), 10))
    now[0] += EVERY
    writer(arrived())
    assert notes.written[-1].done == 1  # another stage begins anew


def test_inside_and_outside_see_the_same_rows_of_the_open_stage(tmp_path: Path) -> None:
    inside = RunStatus(epochs=2)
    begun(tmp_path)
    with opened_run(tmp_path) as open_folder:
        open_folder.database.keep_text(state().seed, SEED)
        inside.replay(open_folder.history())
        open_folder.watch(inside)
        open_folder.live.slowed = lambda: "refused"
        reader = RunReader(tmp_path)
        older, newer = Place.end_of(1).part(arm="older"), Place.end_of(1).part(arm="newer")
        seen = []
        for event in (opened(older, 3), opened(newer, 3), *[arrived()] * 4):
            open_folder.live._at = -EVERY  # every event is written, as if time had passed
            open_folder.emit(event)
            reader.read()
            outside = reader.status
            assert (outside.stage, outside.done, outside.total) == (inside.stage, inside.done, inside.total)
            seen.append(outside.rows())
        assert seen[-1] == "4/6 rows"
        assert reader.status.slowed() == "refused"


# --- live


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


# --- status


NOW = 1_800_000_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, timezone.utc).isoformat(timespec="milliseconds")


def closed(step: int, took: float, *, when: float, **changes: Any) -> Checkpoint:
    told = record(step, wall_time_s=took, timing={"evaluate_s": 10.0}, selection_rows_all=20)
    whole = state(step=step, **changes)
    return Checkpoint(id=f"s{step}", time=at(when), kind="step", state=whole, record=told)


@pytest.fixture
def status() -> RunStatus:
    status = RunStatus(epochs=2, clock=lambda: NOW)
    counts = {"train": 20, "val": 10, "test": 30}
    status(
        RunStarted(
            id="run",
            identity="x",
            benchmark="b",
            target="t",
            optimizer="o",
            simulated=False,
            steps=6,
            counts=counts,
        )
    )
    return status


def strip(status: RunStatus) -> dict[str, str]:
    return {stage.name: stage.state for stage in status.strip()}


def test_what_is_left_is_what_the_plan_still_has_at_the_mean_of_what_was_spent(status: RunStatus) -> None:
    assert (status.left(), status.left_in_words()) == (None, "time left known after the baseline")
    status.worked = lambda: 60.0
    status(SpendingEvent(calls=100, tokens=20_000, usd=0.5, in_flight=0, planned=300.0))
    assert status.left() == pytest.approx(2.0)
    assert status.left_in_words() == "about 2:00 left for 200 calls, 40,000 tokens, cost $1.00"


def test_a_run_that_took_more_than_planned_says_that_nothing_is_known(status: RunStatus) -> None:
    status(SpendingEvent(calls=301, tokens=20_000, usd=None, in_flight=0, planned=300.0))
    assert (status.left(), status.left_in_words()) == (None, "time left unknown")


def test_where_a_run_was_left_is_said_as_such(status: RunStatus) -> None:
    status(closed(1, 100.0, when=-40.0))
    assert status.position() == "epoch 1/2, step 2/6"
    status.is_at_work = False
    assert (status.position(), status.left_in_words()) == (
        "stopped in epoch 1/2, step 2/6",
        "nobody works on it",
    )


def test_the_strip_tells_what_is_done_under_way_and_to_come(status: RunStatus) -> None:
    assert set(strip(status).values()) == {"ahead"}
    status(StageOpened(place="baseline", stage="selection", total=10))
    assert strip(status)["baseline"] == "now"
    status(closed(1, 1.0, when=0))
    assert strip(status) == {name: "done" if name == "baseline" else "ahead" for name in strip(status)}
    status(StageClosed(id="r", place="e1/s2", stage="rollout", rows=[]))
    assert (strip(status)["rollout"], strip(status)["reflect"], strip(status)["gate"]) == (
        "done",
        "now",
        "ahead",
    )
    status(Updated(id="u", place="e1/s2", digest="x", skill="x", outcomes=[]))
    assert (strip(status)["update"], strip(status)["gate"], strip(status)["sealed test"]) == (
        "done",
        "now",
        "ahead",
    )
    status(closed(6, 1.0, when=0, finished=True))
    assert (
        set(strip(status).values()) == {"done"} and status.position() == status.left_in_words() == "finished"
    )


def test_marks_of_a_long_run_are_those_of_its_latest_steps() -> None:
    assert marks(["accept_new_best", "reject", "unchanged", "inconclusive", "force_accept"]) == "●×○?◆"
    long = marks(["accept"] + ["reject"] * LONGEST_MARKS)
    assert long == "…" + "×" * LONGEST_MARKS


def test_spending_can_be_read_while_it_is_taken_in() -> None:
    spending = LedgerView(lambda: 0.0)
    spending.is_at_work = True
    stop = threading.Event()
    broken: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                spending.account.by_role_and_stage()
                spending.flights()
                spending.settled()
        except RuntimeError as error:  # a dictionary that changed while it was read
            broken.append(error)

    reader = threading.Thread(target=read)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for first in range(1, 4001, 400):
            for state in ("open", "settled"):
                for number in range(first, first + 400):
                    spending.take(
                        [
                            Entry(
                                id=number,
                                role="target",
                                stage=f"s{number % 97}",
                                place=f"p{number}",
                                state=state,
                                charged=Amount(calls=1, tokens=5),
                                reserved=5,
                            )
                        ]
                    )
    finally:
        stop.set()
        reader.join(10)
        sys.setswitchinterval(before)
    assert broken == []
    assert spending.account.total().calls == 4000
