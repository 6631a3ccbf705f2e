"""The splits of a run are those of its own `tasks.jsonl`, for every command that takes a run."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import skillopt as door
from cli._commands import Command, Ran, run
from skillopt.errors import UsageError
from skillopt.events import Event, Spending
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.runs.answers import stored_tasks
from skillopt.runs.reader import is_part, read_view
from skillopt.runs.tail import noted_identity
from skillopt.tasks.task import SPLITS

SAID = ("train",) * 9 + ("val",) * 6 + ("test",) * 9
QUICK = ("train.num_epochs=1", "evaluation.repeats=1", "env.workers=4", "evaluation.eval_test=true")
SMALL = {one.partition("=")[0]: json.loads(one.partition("=")[2]) for one in QUICK}
WORLD = "world:noise=0"
WAYS: Mapping[str, tuple[str, ...]] = {
    "a column": (),
    "a column, and at most eight of each": ("env.limit=8",),
    "a column that is not kept": ("store.tasks=false",),
    "a ratio": ("env.split_ratio=1:1:1", "env.split_seed=7"),
    "the usual ratio, against the column": ("env.split_ratio=2:2:1",),
    "a few of each": ("evaluation.sel_env_num=5", "evaluation.test_env_num=5"),
    "a folder": ("env.split_dir=parts", "env.data_path="),
}


def rows(count: int) -> list[dict[str, str]]:
    ids = [f"W{number:06d}" for number in range(count)]
    return [
        {"id": id, "prompt": f"Case {id}, about {family_of(id)}. What is its code?", "answer": code_of(id)}
        for id in ids
    ]


def write(path: Path, found: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def in_column() -> list[dict[str, str]]:
    """Tasks whose splits stand in their rows, and are in no order that a shuffle would give."""
    return [row | {"split": SAID[number * 7 % 24]} for number, row in enumerate(rows(24))]


def train(home: Path, *options: str) -> Path:
    (home / "SKILL.md").write_text(SEED_SKILL)
    words = ("--env", "own", "--skill_init", str(home / "SKILL.md"), "--data_path", str(home / "tasks.jsonl"))
    models = ("--target", WORLD, "--optimizer", WORLD)
    plain = [one.replace("=parts", f"={home / 'parts'}") for one in options]
    ended = run(
        *("train", *words, *models, "--quiet", "--out_root", str(home / "run")),
        *("--cfg-options", *QUICK, *plain),
    )
    assert ended.code == 0, ended.err
    return home / "run"


@pytest.fixture(scope="module", params=WAYS)
def divided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a train, a val and a test split."""
    home = tmp_path_factory.mktemp("divided")
    write(home / "tasks.jsonl", in_column())
    for number, split in enumerate(SPLITS):
        write(home / "parts" / split / "rows.jsonl", rows(36)[12 * number : 12 * number + 12])
    return train(home, *WAYS[request.param])


@pytest.fixture
def its(divided: Path, tmp_path: Path) -> Path:
    """A copy of that run, to work on."""
    copy = tmp_path / "run"
    shutil.copytree(divided, copy)
    return copy


def splits_of(folder: Path) -> dict[str, list[str]]:
    """The tasks of a run: by its tasks.jsonl or, where it kept none, as its rows said."""
    stored = [(one.split, one.id) for one in stored_tasks(folder)]
    found = stored or [(row["split"], row["id"]) for row in in_column()]
    return {split: sorted(id for its, id in found if its == split) for split in SPLITS}


def measured(ran: Ran) -> dict[str, list[str]]:
    """The tasks that an evaluation measured, by the split that it called them."""
    assert ran.code == 0, ran.err
    told = ran.json
    lines = (Path(told["folder"]) / "results.jsonl").read_text().splitlines()
    cells = {(row["split"], row["task"]) for row in map(json.loads, lines)}
    asked = {one["split"] for one in told["evaluations"]}
    return {split: sorted(task for its, task in cells if its == split) for split in asked}


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_eval_measures_the_runs_own_tasks(skillopt: Command, its: Path, split: str) -> None:
    ran = skillopt("eval", str(its), "--split", split, "--json")
    assert measured(ran) == {split: splits_of(its)[split]}
    assert ("this is look 2 at its test split" in ran.err) is (split == "test")


@pytest.mark.slow
def test_best_is_compared_with_the_seed_on_the_val_tasks_of_the_gate(skillopt: Command, its: Path) -> None:
    ran = skillopt("eval", str(its), "--against", "seed", "--json")
    assert measured(ran) == {"val": splits_of(its)["val"]}
    scores = {one["skill"]: one["hard"] for one in ran.json["evaluations"]}
    facts = read_view(its)
    assert scores == {"best": pytest.approx(facts.best), "seed": pytest.approx(facts.baseline)}


@pytest.mark.slow
def test_training_on_its_folder_is_the_same_run(skillopt: Command, its: Path) -> None:
    before = (its / "events.jsonl").read_bytes()
    ran = skillopt("train", str(its), "--quiet")
    assert ran.code == 0 and "anew" not in ran.err, ran.err
    assert (its / "events.jsonl").read_bytes() == before and not (its / "earlier").exists()


@pytest.mark.slow
def test_noise_and_prune_take_the_same_tasks(skillopt: Command, its: Path) -> None:
    ran = skillopt("estimate", str(its), "--noise", "--json", "--draws", "2")
    assert ran.json["noise"]["n"] == len(splits_of(its)["val"])
    ran = skillopt("runs prune", str(its), "--json")
    assert ran.code == 0, ran.err
    pruned, trained = (noted_identity(folder / "run.db")["tasks"] for folder in (its / "pruned", its))
    assert pruned == trained


@pytest.mark.slow
def test_a_run_that_goes_on_from_it_divides_as_it_did(skillopt: Command, its: Path) -> None:
    ran = skillopt("train --from", str(its), "--quiet", "--out_root", "more")
    assert ran.code == 0 and "This was look 2 at the test split" in ran.out, (ran.out, ran.err)
    assert noted_identity(Path("more/run.db"))["tasks"] == noted_identity(its / "run.db")["tasks"]


@pytest.mark.slow
def test_doctor_and_estimate_know_its_splits(skillopt: Command, its: Path) -> None:
    counts = Counter({split: len(ids) for split, ids in splits_of(its).items()})
    told = ", ".join(f"{counts[split]} {split}" for split in SPLITS)
    assert f"{told} tasks" in skillopt("doctor", str(its), "--no-calls").out.replace("\n", " ")
    assert "folds" not in skillopt("estimate", str(its)).out


@pytest.mark.slow
def test_a_stopped_run_with_a_column_goes_on_by_its_folder(skillopt: Command, tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", in_column())
    whole = train(tmp_path)
    calls = json.loads((whole / "summary.json").read_text())["spending"]["calls"]
    for number, share in enumerate((0.1, 0.5, 0.9)):
        stopped = tmp_path / f"stopped-{number}"
        stop_at(share * calls, tmp_path, stopped)
        assert skillopt("train", str(stopped), "--quiet").code == 0
        assert_same(stopped, whole)


def stop_at(calls: float, home: Path, out: Path, **options: Any) -> None:
    """Train from Python until so many calls are paid."""

    def stop(event: Event) -> None:
        if isinstance(event, Spending) and event.calls >= calls:
            working.cancel()

    async def work() -> None:
        nonlocal working
        working = asyncio.ensure_future(
            door.aoptimize(
                target=WORLD,
                optimizer=WORLD,
                skill=home / "SKILL.md",
                tasks=home / "tasks.jsonl",
                scorer="exact_match",
                out=out,
                options=SMALL | options,
                on_event=stop,
            )
        )
        with pytest.raises(asyncio.CancelledError):
            await working

    working: asyncio.Future[Any]
    asyncio.run(work())


def assert_same(one: Path, other: Path) -> None:
    for name in ("best_skill.md", "tasks.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    told, whole = (json.loads((folder / "summary.json").read_text()) for folder in (one, other))
    for name in ("claim", "status", "test"):
        assert told[name] == whole[name]
    assert noted_identity(one / "run.db") == noted_identity(other / "run.db")
    assert not (one / "earlier").exists()


def change(home: Path, edit: Callable[[list[dict[str, str]]], list[dict[str, str]]]) -> None:
    write(home / "tasks.jsonl", edit(in_column()))


@pytest.mark.slow
def test_tasks_that_have_changed_since_are_told(skillopt: Command, tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", in_column())
    folder = train(tmp_path)
    own = splits_of(folder)
    gone = own["val"][0]
    fresh = [row | {"split": "val"} for row in rows(26)[24:]]
    change(tmp_path, lambda found: [*(row for row in found if row["id"] != gone), *fresh])
    ran = skillopt("eval", str(folder), "--json")
    assert measured(ran) == {"val": own["val"][1:]}
    assert f"The tasks of {folder} have changed since: 1 gone, 2 new, which are left out." in ran.err
    ran = skillopt("train", str(folder), "--quiet")
    assert ran.code == 0 and "  other tasks: val\nTraining starts anew" in ran.err
    assert splits_of(folder)["val"] == [*own["val"][1:], *(row["id"] for row in fresh)]

    # A row that says another split now: for the trained skill it is what it was, for a new training what it says.
    moved = own["train"][0]
    change(tmp_path, lambda found: [row | ({"split": "test"} if row["id"] == moved else {}) for row in found])
    before = splits_of(folder)
    assert moved in measured(skillopt("eval", str(folder), "--split", "train", "--json"))["train"]
    assert "Training starts anew" in skillopt("train", str(folder), "--quiet").err
    assert moved in before["train"] and moved in splits_of(folder)["test"]

    change(tmp_path, lambda found: [row | {"id": f"other-{row['id']}"} for row in found])
    ran = skillopt("eval", str(folder), "--json")
    assert ran.code == 2 and f"The train and val tasks of {folder} are no longer" in ran.err


@pytest.mark.slow
def test_tasks_of_a_run_that_kept_none_are_not_guessed(skillopt: Command, tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", in_column())
    folder = train(tmp_path, "store.tasks=false")
    change(tmp_path, lambda found: found[1:])
    for command in ("eval", "train"):
        ran = skillopt(command, str(folder))
        assert ran.code == 2 and f"Which tasks of {folder} were train, val and test cannot be told" in ran.err


@pytest.mark.slow
def test_what_is_said_beside_a_run_divides_its_tasks_anew(skillopt: Command, tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", in_column())
    folder = train(tmp_path)
    write(tmp_path / "others.jsonl", [row | {"id": f"more-{row['id']}"} for row in rows(60)[24:]])
    found = measured(skillopt("eval", str(folder), "--data_path", "others.jsonl", "--split", "all", "--json"))
    assert sum(map(len, found.values())) == 36
    found = measured(skillopt("eval", str(folder), "--limit", "2", "--json"))
    assert len(found["val"]) == 2
    shutil.copy(folder / "settings.json", "settings.json")  # a config like any other
    found = measured(skillopt("eval settings.json --skill none --split test --json"))
    assert found == {"test": splits_of(folder)["test"]}


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose tasks were cross-fitted, in which something was learned."""
    home = tmp_path_factory.mktemp("crossed")
    write(home / "tasks.jsonl", rows(12))
    return train(home)


def refused(ran: Ran, crossed: Path) -> None:
    claim = json.loads((crossed / "summary.json").read_text())["claim"]
    assert "12 cross-fitted tasks" in claim
    assert ran.code == 2 and "was trained on all train and val tasks of" in ran.err, (ran.out, ran.err)
    assert f"The run's own figure: {claim}" in ran.err and "p = " not in ran.err.replace(claim, "")
    assert f"skillopt eval {crossed} --data_path FILE" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["--against seed", "--split test", "--split train", "--split all --against none", "--repeats 2"]
)
def test_no_task_is_left_to_measure_a_cross_fitted_skill_on(
    skillopt: Command, crossed: Path, words: str
) -> None:
    refused(skillopt("eval", str(crossed), *words.split()), crossed)


@pytest.mark.slow
def test_no_other_config_measures_it_on_its_tasks_either(skillopt: Command, crossed: Path) -> None:
    tasks = crossed.parent / "tasks.jsonl"
    own = ("--env", "own", "--data_path", str(tasks), "--target", WORLD)
    seed = str(crossed.parent / "SKILL.md")
    refused(skillopt("eval", *own, "--skill", str(crossed), "--against", seed), crossed)
    with pytest.raises(UsageError, match="was trained on all train and val tasks"):
        door.compare(crossed, seed, target=WORLD, tasks=tasks, scorer="exact_match")
    # Its seed has not learned from them, and others are not its own.
    ran = skillopt("eval", str(crossed), "--skill", "seed", "--split", "all", "--json")
    assert {split: len(ids) for split, ids in measured(ran).items()} == {"train": 6, "val": 6}
    write(Path("new.jsonl"), rows(40)[12:])
    ran = skillopt("eval", str(crossed), "--data_path", "new.jsonl", "--split", "all", "--against", "seed")
    assert ran.code == 0 and "best against seed on test" in ran.out, ran.err


@pytest.mark.slow
def test_a_part_of_it_is_measured_on_its_own_test_alone(skillopt: Command, crossed: Path) -> None:
    part = crossed / "folds" / "1"
    assert is_part(part)
    ran = skillopt("eval", str(part), "--split", "test", "--against", "seed", "--json")
    assert measured(ran) == {"test": splits_of(part)["test"]}
    learned = [
        folder
        for folder in (*crossed.glob("folds/*"), *crossed.glob("rounds/*"))
        if (folder / "best_skill.md").read_bytes() != (crossed.parent / "SKILL.md").read_bytes()
    ]
    assert len(learned) > 2
    for folder in learned:
        ran = skillopt("eval", str(folder), "--against", "seed")
        assert ran.code == 2 and "was trained on all train and val tasks" in ran.err
    ran = skillopt("train", str(part))
    assert ran.code == 2 and f"goes on as a whole: skillopt train {crossed}" in ran.err


@pytest.mark.slow
def test_a_cross_fitted_run_is_pruned_on_the_tasks_of_its_last_round(
    skillopt: Command, crossed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(crossed, copy)
    ran = skillopt("runs prune", str(copy))
    assert ran.code == 0, ran.err
    assert noted_identity(copy / "pruned" / "run.db")["tasks"] == noted_identity(crossed / "run.db")["tasks"]
    claim = json.loads((crossed / "summary.json").read_text())["claim"]
    assert (
        "have taught its skill in other rounds" in ran.out
        and claim in ran.out
        and "p = " not in ran.out.replace(claim, "")
    )


@pytest.mark.slow
def test_a_step_that_starts_from_a_trained_skill_is_explained(skillopt: Command, crossed: Path) -> None:
    parts = [folder.parent for folder in sorted(crossed.rglob("run.db")) if folder.parent.name != "1"]
    first = {part: json.loads((part / "history.json").read_text())[:1] for part in parts if is_part(part)}
    closed = [part for part, steps in first.items() if steps and steps[0]["selection_rows"]]
    assert closed, "no step that measured a row"
    for part in closed:
        ran = skillopt("runs explain", str(part), "1")
        assert ran.code == 0 and "The recomputed verdict equals the recorded one." in ran.out, ran.err


@pytest.mark.slow
def test_the_doubts_about_a_cross_fitted_run_are_about_its_folds(skillopt: Command, crossed: Path) -> None:
    Path("SKILL.md").write_text(SEED_SKILL)
    words = ("--env", "own", "--skill_init", "SKILL.md", "--data_path", str(crossed.parent / "tasks.jsonl"))
    models = ("--target", WORLD, "--optimizer", WORLD, "--budget", "150 calls")
    ran = skillopt("train", *words, *models, "--quiet", "--out_root", "run", "--cfg-options", *QUICK)
    assert ran.code == 4, ran.err
    told = skillopt("adopt run --dry-run --json").json
    (doubt,) = told["doubts"]
    assert doubt.startswith("The folds were not all judged: ") and "sealed" not in doubt
    assert skillopt("adopt", str(crossed), "--dry-run", "--json").json["doubts"] == []


@pytest.mark.slow
def test_what_goes_on_from_a_cross_fitted_run_needs_other_tasks_or_no_test(
    skillopt: Command, crossed: Path
) -> None:
    words = ("train", "--from", str(crossed), "--quiet", "--out_root", "more")
    ran = skillopt(*words)
    assert ran.code == 2 and not Path("more").exists()
    assert "(--folds 1 --eval_test false)" in ran.err and "(--folds 1 --data_path FILE)" in ran.err
    ran = skillopt(*words, "--folds", "1", "--eval_test", "false")
    assert ran.code == 0 and "Test was not measured" in ran.out, ran.err
    write(Path("new.jsonl"), rows(40)[12:])
    words = (*words[:-1], "tested", "--data_path", "new.jsonl", "--folds", "1")
    assert skillopt(*words).code == 0 and "sealed test tasks" in skillopt(*words).out


@pytest.mark.slow
def test_a_stopped_cross_fitting_goes_on_by_its_folder(skillopt: Command, crossed: Path) -> None:
    calls = json.loads((crossed / "summary.json").read_text())["spending"]["calls"]
    for number, share in enumerate((0.05, 0.3, 0.6, 0.95)):
        stopped = Path(f"stopped-{number}")
        stop_at(share * calls, crossed.parent, stopped)
        ran = skillopt("train", str(stopped), "--quiet")
        assert ran.code == 0, ran.err
        assert_same(stopped, crossed)
    before = (crossed / "events.jsonl").read_bytes()
    assert skillopt("train", str(crossed), "--quiet").code == 0
    assert (crossed / "events.jsonl").read_bytes() == before
