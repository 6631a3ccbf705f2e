"""A run is its own config: `eval RUN`, `train RUN` and `train --from RUN` need nothing else, and pay nothing
twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from _loopback import LoopbackProvider, world_answers
from cli._commands import Command, run
from skillopt.models.world.rules import SEED_SKILL
from skillopt.runs.reader import read_view

SIZES = ("env.train_cases=12", "env.val_cases=10", "env.test_cases=10", "train.batch_size=6")


class Trained(NamedTuple):
    folder: Path
    seed: Path
    provider: LoopbackProvider


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A finished run of the simulated world behind HTTP, whose key came by flag."""
    home = tmp_path_factory.mktemp("of-a-run")
    (home / "seed.md").write_text(SEED_SKILL)
    with LoopbackProvider.in_thread(world_answers()) as provider:
        models = [
            f"{role}.name=compatible:m@{provider.base_url}" for role in ("model.target", "model.optimizer")
        ]
        words = ("--quiet", "--out_root", str(home / "run"), "--skill_init", str(home / "seed.md"))
        ended = run("train quickstart", *words, "--cfg-options", *SIZES, *models)
        assert ended.code == 0, ended.err
        yield Trained(home / "run", home / "seed.md", provider)


@pytest.mark.slow
def test_best_is_compared_with_the_seed_of_then_on_val_and_nothing_is_paid(
    skillopt: Command, trained: Trained
) -> None:
    before, seed = trained.provider.calls, trained.seed.read_text()
    trained.seed.write_text("# Something else\n")
    try:
        ran = skillopt("eval", str(trained.folder), "--against", "seed", "--json")
    finally:
        trained.seed.write_text(seed)
    told, facts = ran.json, read_view(trained.folder)
    assert trained.provider.calls == before
    assert {(one["skill"], one["split"]): one["hard"] for one in told["evaluations"]} == {
        ("best", "val"): pytest.approx(facts.best),
        ("seed", "val"): pytest.approx(facts.baseline),
    }
    assert [one["split"] for one in told["comparisons"]] == ["val"] and told["looks"] == []


def test_the_sealed_test_of_a_run_is_opened_when_it_is_named_and_counted(
    skillopt: Command, trained: Trained
) -> None:
    ran = skillopt("eval", str(trained.folder), "--split", "test", "--quiet")
    assert ran.code == 0 and "this is look 2 at its test split" in ran.out


def test_the_folder_alone_goes_on_with_its_run(skillopt: Command, trained: Trained) -> None:
    before = trained.provider.calls
    ran = skillopt("train", str(trained.folder), "--quiet")
    assert ran.code == 0 and str(trained.folder) in ran.out and trained.provider.calls == before


def test_a_new_run_starts_from_the_best_skill_and_is_compared_with_the_first_seed(
    skillopt: Command, trained: Trained
) -> None:
    first, before = read_view(trained.folder), trained.provider.calls
    ran = skillopt("train --from", str(trained.folder), "--num_epochs", "1", "--out_root", "more", "--json")
    told, paid = ran.json, trained.provider.calls - before
    facts = read_view(Path("more"))
    assert facts.seed_skill == first.seed_skill and facts.baseline == first.baseline
    assert facts.best is not None and first.best is not None and facts.best >= first.best
    whole = first.spent.calls
    assert 0 < paid < whole / 2  # no baseline of the seed, no val rows of the best skill, no test of the seed
    assert "This was look 2 at the test split" in told["claim"] or "look 3" in told["claim"]
    again = trained.provider.calls
    words = ("train", "--from", str(trained.folder), "--num_epochs", "1", "--out_root", "more", "--quiet")
    assert skillopt(*words).code == 0 and trained.provider.calls == again


def test_what_a_run_learned_from_is_never_a_test_task_of_the_next(
    skillopt: Command, trained: Trained
) -> None:
    rows = [{"id": one["id"], "prompt": one["question"], "answer": one["expected"]} for one in tasks(trained)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("own.yaml").write_text(
        f"env: {{name: own, data_path: rows.jsonl, scorer: exact_match, split_ratio: '1:1:8', out_root: own}}\n"
        f"model: {{target: 'compatible:m@{trained.provider.base_url}', optimizer: 'compatible:m@{trained.provider.base_url}'}}\n"
    )
    ran = skillopt("train own.yaml --from", str(trained.folder))
    assert ran.code == 2 and "it learned from" in ran.err and not Path("own").exists()


def tasks(trained: Trained) -> list[dict[str, str]]:
    return [json.loads(line) for line in (trained.folder / "tasks.jsonl").read_text().splitlines()]
