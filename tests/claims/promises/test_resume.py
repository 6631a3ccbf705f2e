"""A run that was stopped goes on to the same facts, wherever it stopped; a folder that is another run's is
left alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claims._product import (
    EVENTS,
    Answer,
    Call,
    Event,
    Fault,
    Interrupted,
    Job,
    LoopbackProvider,
    Misbehaviour,
    RunConflict,
    Score,
    ScoringError,
    StageClosed,
    Task,
    TestMeasured,
    Trajectory,
    WorldBenchmark,
    WorldRules,
    WorldSettings,
    api,
    open_run,
    world_answers,
)
from claims.promises._runs import (
    QUICK,
    assert_same_run,
    contents,
    database_of,
    events_of,
    facts,
    in_world,
    make_job,
    public_files,
    quick_folder,
    run,
    start_process,
    summary,
)

CASES = {"train_cases": 12, "val_cases": 10, "test_cases": 6}
SMALL = (
    *(f"env.{name}={count}" for name, count in CASES.items()),
    "train.batch_size=6",
    "train.num_epochs=3",
    "gradient.minibatch_size=2",
    "optimizer.slow_update_samples=8",
    "evaluation.repeats=1",
)
SHORTER = ("train.num_epochs=2",)
"""For modes that are stopped everywhere: what only a third epoch has, the other runs have as well."""
TINY = in_world("world:seed=3", *SMALL)
"""Some sixty facts in a fifth of a second."""


class Halt(Exception):
    """A watcher that breaks: the rudest way in which a process ends without being killed."""


class PartlyBroken(WorldBenchmark):
    """The simulated world with two tasks that cannot be opened and a scorer that breaks on some right
    answers.
    """

    def open(self, task: Task) -> None:
        if task.id in ("W003001", "W000004"):
            raise Fault("parse", f"{task.id} cannot be opened")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        score = await super().score(task, trajectory)
        if score.hard and task.id in ("W000002", "W003005", "W003007"):
            raise ScoringError("parse", f"the scorer breaks on {task.id}")
        return score


def healthy() -> Job:
    return make_job(TINY)


def partly_broken() -> Job:
    return make_job(in_world("world:seed=8", *SMALL), benchmark=PartlyBroken(WorldSettings(**CASES)))


def rewriting() -> Job:
    """Every stage that other update modes and an optimizer's own pace bring along."""
    return make_job(
        in_world(
            "world:seed=5",
            *SMALL,
            *SHORTER,
            "optimizer.skill_update_mode=rewrite_from_suggestions",
            "optimizer.lr_control_mode=autonomous",
            "optimizer.slow_update_gate_with_selection=false",
            "optimizer.longitudinal_pair_policy=changed",
            "optimizer.slow_update_samples=4",
        )
    )


def noting() -> Job:
    """Notes in the appendix, and bundles that are tried again as their halves."""
    aware = ("optimizer.use_skill_aware_reflection=true", "optimizer.skill_aware_consolidate_threshold=1")
    return make_job(
        (
            *in_world("world:seed=3,harm=0.9", *SMALL, *SHORTER, *aware),
            "model.optimizer=world:seed=3,harm=0.9",
        )
    )


def proving() -> Job:
    """Edits are tried before the gate, blamed and pruned after it."""
    more = ("train.strategy=proof", "train.proof.blame_from=1", "train.proof.remaining=2")
    return make_job((*in_world("world:seed=3,harm=0.9,noise=0.1", *SMALL, *more),))


MODES = pytest.mark.parametrize(
    ("world", "thirds"),
    [
        (healthy, {0}),
        (proving, {0}),
        (partly_broken, {0}),
        *(pytest.param(world, {1}, marks=pytest.mark.real) for world in (rewriting, noting)),
    ],
)
"""Every third place to stop."""
WORLDS = pytest.mark.parametrize("world", [healthy, partly_broken])


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


async def run_until(job: Job, folder: Path, at: int, *, live: bool, rudely: bool) -> None:
    """Train until the `at`-th event of its kind in this session; then break, or ask the run to stop."""
    seen = 0

    async with open_run(job, folder, sinks=[lambda event: watch(event)], retry=QUICK) as opened:

        def watch(event: Event) -> None:
            nonlocal seen
            if (event.id is None) == live:
                seen += 1
                if seen == at and rudely:
                    raise Halt
                if seen == at:
                    opened.stop(Interrupted("stopped by the test"))

        try:
            await api.train(opened)
        except (Halt, Interrupted):
            return


def assert_nothing_half_written(folder: Path) -> None:
    for name, data in contents(folder).items():
        assert not name.endswith(".tmp"), name
        if name.endswith(".json"):
            json.loads(data)
    assert (folder / EVENTS).read_bytes()[-1:] in (b"\n", b"")


def assert_paid_once(folder: Path) -> None:
    """The simulated world never fails, so a second reservation for one place would be work paid twice."""
    with database_of(folder) as database:
        assert not database.execute(
            "SELECT place, COUNT(*) FROM spending GROUP BY place HAVING COUNT(*) > 1"
        ).fetchall()


@pytest.mark.slow
@MODES
async def test_a_run_that_breaks_after_any_fact_goes_on_to_equal_logs(
    world: Callable[[], Job], thirds: set[int], quick: Path
) -> None:
    job = world()
    await run(job, quick / "undisturbed")
    exported = public_files(quick / "undisturbed")
    ids = [fact["id"] for fact in facts(quick / "undisturbed")]
    for known in range(1, len(ids) + 1):
        await run_until(job, quick / "broken", 1, live=False, rudely=True)
        assert [fact["id"] for fact in facts(quick / "broken")] == ids[:known]
        assert_nothing_half_written(quick / "broken")
        if known % 3 not in thirds:
            continue
        folder = quick / "resumed"
        shutil.copytree(quick / "broken", folder)
        await run(job, folder)
        assert_same_run(folder, quick / "undisturbed")
        assert public_files(folder) == exported
        assert_paid_once(folder)
        shutil.rmtree(folder)


@pytest.mark.slow
@WORLDS
async def test_a_run_stopped_again_and_again_goes_on_to_equal_logs(
    world: Callable[[], Job], quick: Path
) -> None:
    job = world()
    await run(job, quick / "undisturbed")
    sessions = 0
    while not (quick / "stopped" / "summary.json").exists():
        known = len(facts(quick / "stopped"))
        await run_until(job, quick / "stopped", 1, live=False, rudely=False)
        assert len(facts(quick / "stopped")) > known
        sessions += 1
    assert sessions > 20
    assert_same_run(quick / "stopped", quick / "undisturbed")
    assert_paid_once(quick / "stopped")


@pytest.mark.slow
@MODES
async def test_a_run_stopped_between_two_facts_goes_on_to_equal_logs(
    world: Callable[[], Job], thirds: set[int], quick: Path
) -> None:
    live: list[Event] = []
    job = world()
    await run(
        job, quick / "undisturbed", sinks=[lambda event: live.append(event) if event.id is None else None]
    )
    for number, at in enumerate(range(1, len(live), 19)):
        if number % 3 not in thirds:
            continue
        folder = quick / "stopped"
        await run_until(job, folder, at, live=True, rudely=False)
        assert_nothing_half_written(folder)
        await run(job, folder)
        assert_same_run(folder, quick / "undisturbed")
        assert_paid_once(folder)
        shutil.rmtree(folder)


@pytest.mark.slow
@WORLDS
async def test_the_runs_that_are_stopped_here_have_every_stage(world: Callable[[], Job], quick: Path) -> None:
    """If this fails after a change of prompts or world, the tests above still hold but see less: choose
    another seed.
    """
    await run(world(), quick / "run")
    with database_of(quick / "run") as database:
        asked = {stage for (stage,) in database.execute("SELECT stage FROM replies")}
    assert asked >= {
        "selection",
        "rollout",
        "analyst_failure",
        "analyst_success",
        "merge",
        "ranking",
        "slow_update",
        "meta_skill",
        "test",
    }
    lost = {
        str(event.place)
        for event in events_of(quick / "run")
        if isinstance(event, StageClosed)
        for row in event.rows
        if row.invalid
    }
    assert ("baseline" in lost, bool(lost - {"baseline"})) == (world is partly_broken, world is partly_broken)


@pytest.mark.slow
async def test_the_modes_that_are_stopped_here_have_their_stages(quick: Path) -> None:
    await run(rewriting(), quick / "rewriting")
    await run(noting(), quick / "noting")
    for name, wanted in (
        ("rewriting", {"rewrite", "lr_autonomous", "slow_update"}),
        ("noting", {"appendix_consolidate"}),
    ):
        with database_of(quick / name) as database:
            assert wanted <= {stage for (stage,) in database.execute("SELECT stage FROM replies")}
    assert any("/c1/" in (event.id or "") for event in events_of(quick / "noting"))
    assert any("/more-" in (event.id or "") for event in events_of(quick / "rewriting"))


@pytest.mark.slow
async def test_a_torn_last_line_is_cut_off_and_written_again(quick: Path) -> None:
    await run(healthy(), quick / "undisturbed")
    await run_until(healthy(), quick / "torn", 20, live=False, rudely=True)
    log = quick / "torn" / EVENTS
    whole = log.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in (1, len(last) // 2, len(last) - 1):
        log.write_bytes(whole[: len(whole) - len(last) + kept])
        folder = quick / f"torn_{kept}"
        shutil.copytree(quick / "torn", folder)
        await run(healthy(), folder)
        assert_same_run(folder, quick / "undisturbed")


@pytest.mark.slow
async def test_a_folder_copied_elsewhere_goes_on_there(quick: Path) -> None:
    await run(healthy(), quick / "undisturbed")
    await run_until(healthy(), quick / "here", 30, live=False, rudely=False)
    shutil.copytree(quick / "here", quick / "far" / "away")
    shutil.rmtree(quick / "here")
    await run(healthy(), quick / "far" / "away")
    assert_same_run(quick / "far" / "away", quick / "undisturbed")
    assert not (quick / "here").exists()
    for name, data in contents(quick / "far" / "away").items():
        assert str(quick).encode() not in data, f"{name} names the folder it lies in"


@pytest.mark.slow
async def test_budget_workers_and_endpoint_may_differ_when_a_run_goes_on(tmp_path: Path) -> None:
    answers = world_answers(WorldRules(seed=3))
    async with LoopbackProvider(answers) as first, LoopbackProvider(answers) as second:
        await run(make_job(in_world(f"compatible:m@{first.base_url}", *SMALL)), tmp_path / "undisturbed")
        await run_until(
            make_job(in_world(f"compatible:m@{first.base_url}", *SMALL)),
            tmp_path / "moved",
            25,
            live=False,
            rudely=False,
        )
        changes = (
            "env.workers=2",
            "gradient.analyst_workers=1",
            "budget.calls=5000",
            "env.exec_timeout=30",
            "output.predictions=true",
        )
        await run(make_job(in_world(f"compatible:m@{second.base_url}", *SMALL, *changes)), tmp_path / "moved")
        assert second.calls > 0
    assert_same_run(tmp_path / "moved", tmp_path / "undisturbed")


def some_lost(call: Call) -> Misbehaviour | None:
    """Refuses every question of one train, one val and one test case."""
    lost = (
        call.place is not None
        and call.place.startswith("rollout/")
        and any(case in call.text for case in ("W000004", "W003001"))
    )
    return Misbehaviour.status(400, body="this case is refused") if lost else None


@pytest.mark.slow
async def test_a_finished_run_sends_nothing_and_changes_no_file(tmp_path: Path) -> None:
    answers = world_answers(WorldRules(seed=3))

    def answer(call: Call) -> str | Answer:
        if "W006002" in call.text:  # a test row that never becomes a score: our cap cuts every answer to it
            return Answer(text="<answer>", finish="length", output_tokens=16384)
        return answers(call)

    async with LoopbackProvider(answer, behave=some_lost) as provider:
        job = make_job(in_world(f"compatible:m@{provider.base_url}", *SMALL))
        await run(job, tmp_path / "run")
        calls, before, told = provider.calls, contents(tmp_path / "run"), summary(tmp_path / "run")
        (measured,) = [event for event in events_of(tmp_path / "run") if isinstance(event, TestMeasured)]
        assert [row.task for row in measured.rows["best"] if row.invalid] == ["W006002"]
        await run(job, tmp_path / "run")
        assert provider.calls == calls
    after = contents(tmp_path / "run")
    assert {name for name in after if after[name] != before.get(name)} <= {"summary.json"}
    assert set(after) == set(before)
    assert {name for name, value in summary(tmp_path / "run").items() if value != told[name]} <= {
        "total_wall_time_s",
        "wall_time_s",
    }


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ("train.seed=7", "train.seed: 42 there, 7 now"),
        ("model.target=world:seed=4", "model.target.name"),
        ("env.val_cases=11", "env.val_cases: 10 there, 11 now"),
        ("evaluation.use_gate=false", "evaluation.use_gate: true there, false now"),
    ],
)
@pytest.mark.parametrize("at", [5, 40])
async def test_another_run_in_the_folder_is_refused_with_the_difference_and_nothing_changed(
    change: str, shown: str, at: int, quick: Path
) -> None:
    await run_until(healthy(), quick / "run", at, live=False, rudely=True)
    before = contents(quick / "run")
    with pytest.raises(RunConflict) as refusal:
        await run(make_job((*TINY, change)), quick / "run")
    assert shown in str(refusal.value)
    assert contents(quick / "run") == before


@pytest.mark.slow
async def test_a_second_process_on_the_folder_is_refused(quick: Path) -> None:
    async with open_run(healthy(), quick / "run", retry=QUICK) as opened:
        before = contents(quick / "run")
        second = start_process(quick / "run", TINY)
        _, told = second.communicate(timeout=30)
        assert second.returncode != 0
        assert "RunConflict" in told
        assert "is in use by process" in told
        assert contents(quick / "run") == before
        await api.train(opened)
    await run(healthy(), quick / "undisturbed")
    assert_same_run(quick / "run", quick / "undisturbed")
