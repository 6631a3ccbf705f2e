"""What training runs share by themselves, what never goes in, and what goes out first."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import run
from skillopt.config.load import load
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.run import prepare
from skillopt.run.assembly import cache_folder, own_cache
from skillopt.runs.cache import SharedRollouts
from skillopt.runs.database import Database
from skillopt.tasks.rollout import Score, Trajectory

FIXED = ("model.target.temperature=0", "model.target.api_key=sk-of-mine")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "seed.md").write_text(SEED_SKILL)
    cases = [f"W00{number:04d}" for number in range(24)]
    rows = [
        {"id": one, "prompt": f"Case {one}, about {family_of(one)}.", "answer": code_of(one)} for one in cases
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(world_answers()) as provider:
        yield provider


def options(home: Path, url: str, *more: str) -> tuple[str, ...]:
    models = (f"model.target=compatible:m@{url}", f"model.optimizer=compatible:m@{url}")
    sizes = ("train.folds=1", "train.num_epochs=1", "train.batch_size=6", "evaluation.repeats=1")
    data = ("env.name=own", f"env.data_path={home / 'tasks.jsonl'}", f"env.skill_init={home / 'seed.md'}")
    return (*models, *sizes, *data, "env.scorer=contains", *more)


@pytest.mark.slow
def test_a_second_run_does_not_pay_for_what_the_first_one_measured(
    home: Path, provider: LoopbackProvider
) -> None:
    def rollouts(name: str, *more: str) -> int:
        before = len(provider.log)
        given = options(home, provider.base_url, f"env.out_root={home / name}", *more)
        ended = run("train", "--quiet", "--cfg-options", *given)
        assert ended.code == 0, ended.err
        return sum((one.place or "").startswith("rollout/") for one in provider.log[before:])

    first = rollouts("first", *FIXED)
    assert first > 10 and rollouts("second", *FIXED) == 0
    assert rollouts("third", *FIXED, "cache.shared=false") > 10
    warm = [rollouts(f"warm-{number}", "model.target.api_key=sk-of-mine") for number in range(2)]
    assert min(warm) > 10, "its draws are independent"
    shown = json.loads(run("config", "cache", "--json").out)
    assert (
        shown["path"]
        == run("config", "cache", "path").out.strip()
        == str(home / "caches" / "skillopt" / "rollouts")
    )
    # Of those that were asked for, a verdict that came early left a few unread.
    assert 10 < shown["rollouts"] <= first and not shown["cleared"]
    (file,) = Path(shown["path"]).glob("*.db")
    assert b"sk-of-mine" not in file.read_bytes() and file.parent.stat().st_mode & 0o077 == 0
    measured = len(provider.log)
    given = options(home, provider.base_url, *FIXED, f"env.out_root={home / 'anew'}")
    assert (
        run(
            "eval", "--quiet", "--skill", str(home / "seed.md"), "--split", "val", "--cfg-options", *given
        ).code
        == 0
    )
    assert len(provider.log) > measured, "eval measures anew"
    assert json.loads(run("config", "cache", "clear", "--json").out)["cleared"] and not list(
        file.parent.iterdir()
    )
    assert rollouts("again", *FIXED) == first


@pytest.mark.parametrize(
    "more",
    [
        ("model.target.temperature=0",),
        ("model.target.api_key=k",),
        (*FIXED, "model.target.temperature=0.1"),
        (*FIXED, "store.tasks=false"),
        (*FIXED, "cache.shared=false"),
        (*FIXED, "env.name=world", "env.data_path=", "env.scorer="),
        (*FIXED, "train.folds=3"),
    ],
    ids=["no key", "no temperature", "warm", "private", "off", "simulated", "folds"],
)
def test_what_is_not_shared(more: tuple[str, ...], home: Path) -> None:
    def cache(*given: str) -> Path | None:
        wanted = options(home, "http://127.0.0.1:9/v1", *given)
        if "env.name=world" in given:
            wanted = tuple(one for one in wanted if not one.startswith(("env.data_path", "env.scorer")))
        return own_cache(prepare(load(None, flags={}, options=[*wanted], environ={}, cwd=home)))

    assert cache(*FIXED) is not None and cache(*more) is None


def test_a_name_means_another_model_at_another_address(home: Path) -> None:
    found = {
        own_cache(prepare(load(None, flags={}, options=[*options(home, url, *FIXED)], environ={}, cwd=home)))
        for url in ("http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1")
    }
    assert len(found) == 2 and None not in found


def told(number: int) -> Trajectory:
    return Trajectory(messages=(), answer=f"{number}" * 2_000, calls=1, usage=None)


def fill(path: Path, own: Path, numbers: range, limit: int | None) -> None:
    mine = Database(own)
    shared = SharedRollouts(mine, path, limit=limit)
    for number in numbers:
        shared.keep(f"r{number}", 0, told(number % 10))
        shared.keep_score(f"r{number}", 0, "s", Score(hard=1.0, soft=1.0))
    shared.shut()
    mine.shut()


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "c" / "cache.db"
    fill(path, tmp_path / "a.db", range(300), None)
    mine = Database(tmp_path / "b.db")
    shared = SharedRollouts(mine, path, limit=600_000)
    assert shared.scored("r3", "s") is not None  # used now
    shared.shut()
    mine.shut()
    assert path.stat().st_size <= 600_000
    left = Database(path)
    assert left.finished("r3") and left.finished("r299") and not left.finished("r4")
    assert 50 < left.rollouts() < 150
    left.shut()


def test_two_processes_may_fill_it_at_once_and_a_broken_one_is_done_without(tmp_path: Path) -> None:
    path = tmp_path / "c" / "cache.db"
    each = [
        threading.Thread(target=fill, args=(path, tmp_path / f"{n}.db", range(40 * n, 40 * n + 40), 10**9))
        for n in range(2)
    ]
    for one in each:
        one.start()
    for one in each:
        one.join()
    whole = Database(path)
    assert whole.rollouts() == 80
    whole.shut()
    path.write_bytes(b"no database" * 1000)
    fill(path, tmp_path / "own.db", range(3), 10**9)
    kept = Database(tmp_path / "own.db")
    assert kept.rollouts() == 3
    kept.shut()


def test_a_damaged_file_of_the_cache_is_counted_by_its_size_and_cleared(home: Path) -> None:
    folder = cache_folder()
    folder.mkdir(parents=True)
    (folder / "0123456789abcdef.db").write_bytes(b"no database")
    shown = json.loads(run("config", "cache", "--json").out)
    assert (shown["bytes"], shown["rollouts"]) == (11, 0)
    assert run("config", "cache", "clear").code == 0 and not list(folder.iterdir())
