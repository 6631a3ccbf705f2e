"""SkillOpt as a library: objects where strings would do, and the same results."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_origin

import pytest

import skillopt
from skillopt.benchmarks.world import PLUGIN as WORLD
from skillopt.errors import UnknownName, UsageError
from skillopt.harnesses import Session, TurnByTurn
from skillopt.models import ModelSpec, provider
from skillopt.models.world.rules import SEED_SKILL
from skillopt.registry.kinds import KINDS
from skillopt.tasks.rollout import Trajectory

SMALL = {"train.num_epochs": 1, "train.batch_size": 12, "env.workers": 4}


def world(name: str = "noise=0") -> skillopt.Model:
    return provider("world")(ModelSpec(provider="world", name=name))


def cases() -> Any:
    return WORLD(WORLD.Settings(train_cases=24, val_cases=20, test_cases=20))


class Echo:
    """A harness that answers without any model of ours."""

    name = "echo"
    version = "1"
    asks_model = False

    async def run(
        self, task: Any, environment: Any, skill: str, prompts: Any, session: Session
    ) -> Trajectory:
        said = "W" if "rule" in skill else ""
        return Trajectory(messages=(), answer=said, calls=0, usage=None, failure=None, seconds=0.0)


class Shouting(TurnByTurn):
    """A harness around a model of ours."""

    name = "shouting"
    version = "1"


def test_every_public_name_is_there_and_documented() -> None:
    assert len(skillopt.__all__) >= 30
    for name in skillopt.__all__:
        found = getattr(skillopt, name)
        assert not inspect.ismodule(found), name
        # Python 3.10 takes an alias such as Callable[[Event], None] for a class.
        if get_origin(found) is None and (inspect.isclass(found) or inspect.isfunction(found)):
            assert inspect.getdoc(found), name


@pytest.mark.slow
async def test_a_training_takes_models_and_a_benchmark_as_objects(tmp_path: Path) -> None:
    strings = await skillopt.aoptimize(
        target="world:noise=0",
        optimizer="world:noise=0",
        benchmark="world",
        out=tmp_path / "strings",
        options={**SMALL, "env.train_cases": 24, "env.val_cases": 20, "env.test_cases": 20},
    )
    objects = await skillopt.aoptimize(
        target=world(), optimizer=world(), benchmark=cases(), out=tmp_path / "objects", options=SMALL
    )
    assert objects.status == "finished"
    assert objects.best_skill == strings.best_skill != SEED_SKILL
    again = await skillopt.aoptimize(
        target=world(), optimizer=world(), benchmark=cases(), out=tmp_path / "objects", options=SMALL
    )
    assert again.best_skill == objects.best_skill
    assert "given" not in KINDS["models"].names()


async def test_a_harness_object_works_with_a_model_and_without_one(tmp_path: Path) -> None:
    common: dict[str, Any] = {"benchmark": cases(), "split": "val", "options": {"env.workers": 4}}
    skill = tmp_path / "skill.md"
    skill.write_text(SEED_SKILL)
    (plain,) = await skillopt.aevaluate(skill, target=world(), out=tmp_path / "a", **common)
    (shouted,) = await skillopt.aevaluate(
        skill, target=world(), harness=Shouting(), out=tmp_path / "b", **common
    )
    (echoed,) = await skillopt.aevaluate(skill, target=Echo(), out=tmp_path / "c", **common)
    assert shouted.hard == plain.hard
    assert (echoed.hard, echoed.n) == (0.0, 20)


def test_two_skills_are_compared_in_pairs(tmp_path: Path) -> None:
    (tmp_path / "seed.md").write_text(SEED_SKILL)
    rows = [{"id": f"t{n}", "prompt": f"Say {n}", "reference": str(n)} for n in range(6)]
    (found,) = skillopt.compare(
        tmp_path / "seed.md",
        "none",
        target=world(),
        tasks={"train": rows[:1], "val": rows[1:]},
        scorer=lambda task, answer: task.reference in answer,
        split="val",
        out=tmp_path / "out",
    )
    assert found.comparison.n == 5


def test_a_target_in_a_file_that_was_changed_is_another_one(tmp_path: Path) -> None:
    rows = [{"id": str(n), "prompt": f"Say {n}", "answer": str(n)} for n in range(4)]
    scores = []
    for answer in ("task.prompt.split()[1]", "'something else'"):
        (tmp_path / "agent.py").write_text(f"def answers(task, skill):\n    return {answer}\n")
        target = f"{tmp_path / 'agent.py'}:answers"
        out = tmp_path / str(len(scores))
        done = skillopt.evaluate(
            "none", target=target, tasks=rows, scorer="exact_match", split="train", out=out
        )
        scores += [one.hard for one in done]
    assert scores == [1.0, 0.0]


@pytest.mark.slow
def test_an_estimate_needs_no_key_and_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = skillopt.estimate(target="openai:gpt-5.4-mini", optimizer="openai:gpt-5.5", benchmark=cases())
    assert found.calls.typical > 0
    assert found.usd is not None and found.usd.typical > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "tasks with a scorer, or a benchmark"),
        ({"tasks": [], "benchmark": "world"}, "not both"),
        ({"benchmark": "world", "scorer": "exact_match"}, "scores its tasks itself"),
    ],
)
def test_what_to_work_on_is_said_once(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        skillopt.estimate(target="world", optimizer="world", **given)


@pytest.mark.slow
def test_a_plug_in_is_registered_in_this_process_and_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS["models"], "_added", {})
    skillopt.register("models", "acme", lambda spec: world())
    assert "acme" in KINDS["models"].names()
    found = skillopt.estimate(target="acme:one", optimizer="acme:two", benchmark=cases())
    assert found.calls.typical > 0
    with pytest.raises(UnknownName, match="Did you mean 'models'"):
        skillopt.register("modls", "acme", print)


@pytest.mark.parametrize(
    ("given", "said"), [({"skill": "s", "target": "world", "x": "y"}, "'x'"), ({}, "'skill'")]
)
def test_a_wrong_argument_is_told_with_the_name_that_was_called(given: dict[str, str], said: str) -> None:
    with pytest.raises(TypeError, match=rf"^evaluate\(\) .*{said}"):
        skillopt.evaluate(**given)  # type: ignore[arg-type]
