"""A corrected scorer, model or data path in the same folder: training starts anew with what still holds, and
nothing of the earlier run is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import Ran, run
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(world_answers()) as provider:
        yield provider


class Typed:
    """`skillopt train` in one folder, typed again and again."""

    def __init__(self, home: Path, provider: LoopbackProvider) -> None:
        self.home, self.folder, self.provider = home, home / "run", provider
        (home / "seed.md").write_text(SEED_SKILL)
        self.write_tasks("tasks.jsonl", range(30))

    def write_tasks(self, name: str, numbers: range, answer: str = "") -> None:
        cases = [f"W00{number:04d}" for number in numbers]
        rows = [
            {
                "id": case,
                "prompt": f"Case {case}, about {family_of(case)}.",
                "answer": answer or code_of(case),
            }
            for case in cases
        ]
        (self.home / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def train(self, *words: str, model: str = "m", tasks: str = "tasks.jsonl") -> tuple[Ran, int]:
        """What the command said, and how many rollouts it paid for."""
        before = len(self.provider.log)
        url = self.provider.base_url
        given = (
            "--env",
            "own",
            "--quiet",
            "--out_root",
            str(self.folder),
            "--batch_size",
            "6",
            "--eval_test",
            "true",
        )
        ended = run(
            *(
                "train",
                *given,
                "--skill_init",
                str(self.home / "seed.md"),
                "--data_path",
                str(self.home / tasks),
            ),
            *(
                "--target_model",
                f"compatible:{model}@{url}",
                "--optimizer_model",
                f"compatible:m@{url}",
                *words,
            ),
            *("--cfg-options", "train.folds=1", "train.num_epochs=1", "evaluation.repeats=1"),
            *("evaluation.check_baseline=false",),
        )
        paid = [one for one in self.provider.log[before:] if (one.place or "").startswith("rollout/")]
        return ended, len(paid)

    def told(self, *where: str) -> Any:
        return json.loads(self.folder.joinpath(*where, "summary.json").read_text())


@pytest.mark.slow
def test_a_corrected_scorer_scores_anew_and_pays_no_rollout_again_that_holds(
    tmp_path: Path, provider: LoopbackProvider
) -> None:
    typed = Typed(tmp_path, provider)
    first, paid = typed.train("--scorer", "exact_match")
    assert first.code == 0 and paid > 12, first.err
    wrong = (typed.folder / "summary.json").read_bytes()
    again, more = typed.train("--scorer", "contains")
    assert (
        again.code == 0 and "Training starts anew. What the target answered is not paid again." in again.err
    )
    assert "Every answer is scored anew." in again.err and f"kept in {typed.folder / 'earlier'}" in again.err
    assert more < paid - 12, "baseline and the seed's test are there"
    assert (typed.folder / "earlier" / "001" / "summary.json").read_bytes() == wrong
    assert (typed.told()["test"]["look"], typed.told("earlier", "001")["test"]["look"]) == (2, 1)
    same, none = typed.train("--scorer", "contains")
    assert (same.code, none) == (0, 0) and "anew" not in same.err
    back, fewer = typed.train("--scorer", "exact_match")
    assert back.code == 0 and fewer == 0 and typed.told()["test"]["look"] == 3
    assert typed.told()["claim"].partition("This was look")[0] == json.loads(wrong)["claim"].rstrip() + " "


@pytest.mark.slow
def test_another_model_or_other_tasks_pay_for_what_does_not_hold(
    tmp_path: Path, provider: LoopbackProvider
) -> None:
    typed = Typed(tmp_path, provider)
    _, paid = typed.train()
    ended, asked = typed.train(model="other")
    assert ended.code == 0 and "another target" in ended.err and asked >= paid - 6
    typed.write_tasks("corrected.jsonl", range(29, -1, -1))
    ended, fewer = typed.train(model="other", tasks="corrected.jsonl")
    assert ended.code == 0 and "tasks that are the same are not paid again" in ended.err
    assert fewer < asked, "the same tasks in another order"
    assert "  other tasks: test, train, val\n" in ended.err
    assert typed.told()["test"]["look"] == 3, "no correction makes the sealed test a new one"
    assert sorted(one.name for one in (typed.folder / "earlier").iterdir()) == ["001", "002"]
    listed = run("runs", str(tmp_path), "--json").json
    assert [Path(one["folder"]).name for one in listed["runs"]] == ["run"], "what was put aside is in its run"
    assert len(run("runs", str(typed.folder / "earlier"), "--json").json["runs"]) == 2


@pytest.mark.slow
def test_another_plan_is_another_run_and_a_killed_move_is_carried_on(
    tmp_path: Path, provider: LoopbackProvider
) -> None:
    typed = Typed(tmp_path, provider)
    typed.train()
    before = sorted(typed.folder.rglob("*"))
    refused, paid = typed.train("--scorer", "contains", "--seed", "7")
    assert (refused.code, paid) == (2, 0) and "train.seed: 42 there, 7 now" in refused.err
    assert sorted(typed.folder.rglob("*")) == before
    half = typed.folder / "earlier" / "001.moving"
    half.mkdir(parents=True)
    for name in ("events.jsonl", "summary.json"):
        (typed.folder / name).rename(half / name)
    ended, paid = typed.train()
    assert (ended.code, paid) == (0, 0), ended.err
    assert (half.with_name("001") / "run.db").is_file() and not half.exists()


def test_a_damaged_database_is_told_in_words(tmp_path: Path, provider: LoopbackProvider) -> None:
    typed = Typed(tmp_path, provider)
    assert typed.train()[0].code == 0
    file = typed.folder / "run.db"
    kept = file.read_bytes()
    file.write_bytes(kept[: len(kept) // 2])  # sound enough to be opened
    ended, paid = typed.train()
    assert ended.code == 2 and paid == 0
    assert f"{file} cannot be opened as a run's database" in ended.err
