"""`kill -9` at random moments, the same command again: the same run, and no answer that was kept is asked for
twice.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from claims._product import (
    DATABASE,
    Answer,
    Blamed,
    Call,
    LoopbackProvider,
    Misbehaviour,
    Proved,
    StageClosed,
    TestMeasured,
    WorldRules,
    chance,
    seeded_latency,
    world_answers,
)
from claims.promises._runs import (
    assert_same_run,
    committed,
    database_of,
    events_of,
    facts,
    in_world,
    make_job,
    public_files,
    run,
    start_process,
    summary,
)

OPTIONS = (
    "env.train_cases=24",
    "env.val_cases=20",
    "env.test_cases=20",
    "env.workers=6",
    "train.batch_size=12",
    "train.num_epochs=3",
    "gradient.minibatch_size=3",
    "evaluation.repeats=1",
    "optimizer.slow_update_samples=10",
)
STAGES = {
    "paper": {"baseline", "rollout", "reflect", "merge", "gate", "epoch end", "test"},
    "proof": {"baseline", "rollout", "reflect", "proof", "merge", "gate", "test"},
}
OPTIMIZER_STAGES = {
    "analyst": "reflect",
    "merge": "merge",
    "joining": "merge",
    "ranking": "select",
    "repair": "select",
    "slow": "epoch end",
    "meta": "epoch end",
}
LATENCY = (0.004, 0.02)
WINDOW = 26
"""How many requests ahead a kill is planned."""
ENOUGH = 4
"""Kills in one stage."""
LONGEST = 60.0
HELD = 3.0
"""Seconds in which whoever waits for the trap has surely looked."""


class Trap:
    """The provider's side: answers as the simulated world, loses a few rollouts for good, and says when a
    chosen request is there. That one is answered late, so that the run is killed before it can slip out of
    its stage.
    """

    def __init__(self, seed: int) -> None:
        self._answers = world_answers(WorldRules(seed=seed))
        self._waits_for: Collection[str | None] = ()
        self.sprung = threading.Event()

    def set(self, places: Collection[str | None]) -> None:
        self.sprung.clear()
        self._waits_for = places

    def answer(self, call: Call) -> str | Answer:
        if is_lost(call.place, "cut"):
            return Answer(text="<answer>", finish="length", output_tokens=16384)
        return self._answers(call)

    def behave(self, call: Call) -> Misbehaviour | None:
        if call.place in self._waits_for:
            self.sprung.set()
            return Misbehaviour.hang(HELD)
        return Misbehaviour.status(400, body="refused for good") if is_lost(call.place, "refused") else None


def is_lost(place: str | None, how: str) -> bool:
    """Two of a hundred attempts at a rollout each way; a later attempt at the same rollout may do better."""
    return place is not None and place.startswith("rollout/") and chance(how, place) < 0.02


def stages_of(folder: Path) -> dict[str, str]:
    """Where in a run each place was first used, in the order of sending: the places any run of this identity
    must ask.
    """
    used: dict[str, str] = {}
    with database_of(folder) as database:
        asked = [
            place
            for (place,) in database.execute(
                "SELECT place FROM replies WHERE role = 'optimizer' ORDER BY rowid"
            )
        ]
        sent = [place for (place,) in database.execute("SELECT place FROM spending ORDER BY id")]
    for event in events_of(folder):
        if isinstance(event, StageClosed):
            steps = {"rollout": "rollout", "selection": "gate"}
            stage = (
                "baseline"
                if str(event.place) == "baseline"
                else "epoch end"
                if "/end" in str(event.place)
                else steps[event.stage]
            )
            rows = event.rows
        elif isinstance(event, TestMeasured):
            stage, rows = "test", event.rows["best"]
        elif isinstance(event, Proved | Blamed):
            stage = "proof" if isinstance(event, Proved) else event.stage
            rows = [row for trial in event.trials for row in trial.rows]
        elif event.type in ("reflected", "aggregated", "selected", "epoch_ended"):
            where = f"e{event.epoch}/end" if event.type == "epoch_ended" else str(event.place)
            for place in [one for one in asked if one.startswith(f"{where}/")]:
                used.setdefault(place, OPTIMIZER_STAGES[place.split("/")[2].partition("_")[0]])
            continue
        else:
            continue
        for row in rows:
            if row.rollout is not None:
                used.setdefault(f"rollout/{row.rollout}.{row.attempt}/0", stage)
    return {place: used[place] for place in dict.fromkeys(sent) if place in used}


def choose(left: dict[str, str], landed: Counter[str], dice: random.Random) -> str:
    """One of the next requests, in the stage that was met least so far: the long stages would take all kills
    else.
    """
    soon = dict(list(left.items())[:WINDOW])
    stage = min(dict.fromkeys(soon.values()), key=lambda one: landed[one])
    places = [place for place, where in soon.items() if where == stage]
    # early at first, so as not to slip out of it
    return dice.choice(places if landed[stage] else places[: (len(places) + 1) // 2])


def landed_in(folder: Path, reservations: int, stages: dict[str, str]) -> tuple[str, int]:
    """The stage whose request was reserved last when the process died, and how many reservations there are
    now.
    """
    if not (folder / DATABASE).exists():
        return "start", 0
    with database_of(folder) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'spending'").fetchone():
            return "start", 0
        places = [place for (place,) in database.execute("SELECT place FROM spending ORDER BY id")]
    new = [stages[place] for place in places[reservations:] if place in stages]
    return (new[-1] if new else "start"), len(places)


def kill_again_and_again(
    folder: Path,
    options: tuple[str, ...],
    stages: dict[str, str],
    provider: LoopbackProvider,
    trap: Trap,
    dice: random.Random,
) -> Counter[str]:
    """Start, kill, start again until the run ends by itself; after every start, nothing that was kept may
    have been asked again.
    """
    landed: Counter[str] = Counter()
    kept: set[tuple[str, int]] = set()
    reservations = 0
    while True:
        # a request that is lost leaves no answer that says whether it is still to come
        left = {
            place: stage
            for place, stage in stages.items()
            if (place, 0) not in kept
            and landed[stage] < ENOUGH
            and not (is_lost(place, "cut") or is_lost(place, "refused"))
        }
        # Some moments are chosen by the clock instead: importing, opening, reading back, between two
        # requests.
        blind = bool(left) and sum(landed.values()) > 2 and dice.random() < 0.15
        place = choose(left, landed, dice) if left and not blind else None
        # one that is no longer needed, as its trial is decided without it, is not waited for to the end
        order = list(left)
        trap.set({place, *order[order.index(place) + WINDOW :]} if place else ())
        mark = provider.calls
        process = start_process(folder, options)
        if not ends_before_the_moment(process, trap, dice.uniform(0.0, 1.0) if blind else LONGEST):
            time.sleep(
                dice.uniform(
                    0.0, dice.choice(LATENCY) if place is None or landed[stages[place]] else LATENCY[0]
                )
            )
            process.kill()
        _, told = process.communicate(timeout=LONGEST)
        again = [entry.place for entry in provider.log[mark:] if (entry.place, entry.draw) in kept]
        assert not again, f"asked again although the answer was kept: {again}"
        if process.returncode == 0:
            return landed
        assert process.returncode == -signal.SIGKILL, told
        where, reservations = landed_in(folder, reservations, stages)
        landed[where] += 1
        kept = committed(folder)


def ends_before_the_moment(process: subprocess.Popen[str], trap: Trap, seconds: float) -> bool:
    """Wait until the trap springs or the time is up; True if the process ended by itself first."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not trap.sprung.wait(0.002):
        if process.poll() is not None:
            return True
    return process.poll() is not None


@pytest.mark.timeout(300)  # some thirty processes are started; on a busy machine that takes its time
@pytest.mark.real  # a minute each
@pytest.mark.parametrize(("strategy", "seed"), [("paper", 10), ("proof", 3)])
def test_a_run_killed_at_random_moments_ends_as_if_it_was_not(
    strategy: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trap, wanted = Trap(seed), STAGES[strategy]
    landed: Counter[str] = Counter()
    with LoopbackProvider.in_thread(
        trap.answer, behave=trap.behave, latency=seeded_latency(seed, *LATENCY)
    ) as provider:
        options = in_world(f"compatible:m@{provider.base_url}", *OPTIONS, f"train.strategy={strategy}")
        asyncio.run(run(make_job(options), tmp_path / "undisturbed"))
        stages = stages_of(tmp_path / "undisturbed")
        undisturbed = provider.calls
        # a kill may slip into the next stage on a busy machine: then another run is killed as well
        for again in range(3):
            folder = tmp_path / f"killed{again}"
            before = provider.calls
            landed += kill_again_and_again(
                folder, options, stages, provider, trap, random.Random(seed + again)
            )
            with capsys.disabled():
                shown = ", ".join(f"{stage} {count}" for stage, count in sorted(landed.items()))
                asked = provider.calls - before
                print(
                    f"\n{sum(landed.values())} kills landed in: {shown}; {asked} requests instead of"
                    f" {undisturbed}"
                )
            assert_equal(folder, tmp_path / "undisturbed")
            if strategy == "paper":
                assert unread(folder) | unread(tmp_path / "undisturbed") <= {"selection"}
            if sum(landed.values()) >= 20 and wanted <= set(landed):
                break
    assert sum(landed.values()) >= 20
    assert wanted <= set(landed)


def unread(folder: Path) -> set[str]:
    """The stages of training rollouts that were kept and that no fact names. Which rows a gate had sent beyond
    its verdict is a matter of time, with or without a kill.
    """
    read = set(stages_of(folder))
    with database_of(folder) as database:
        kept = database.execute("SELECT place, stage FROM replies WHERE role = 'target' AND stage != 'test'")
        return {stage for place, stage in kept if place not in read and not is_lost(place, "cut")}


def assert_equal(killed: Path, undisturbed: Path) -> None:
    """Skill, verdicts, facts, history, public files and claim are those of the run that nobody killed."""
    assert_same_run(killed, undisturbed)
    assert public_files(killed) == public_files(undisturbed)
    told, expected = summary(killed), summary(undisturbed)
    assert told["status"] == "finished"
    assert {name: told[name] for name in ("claim", "test")} == {
        name: expected[name] for name in ("claim", "test")
    }
    assert '"invalid": "' in json.dumps(facts(killed)), "some rows are lost in every run"
