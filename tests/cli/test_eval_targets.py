"""`skillopt eval` with several targets: the table, one target's outage, and what must not be shared between
targets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import LoopbackProvider, Misbehaviour, world_answers
from cli._commands import SMALL, Command
from skillopt.testing import WorldRules

WORDS = ("eval", "--env", "world", "--split", "val", "--skill", "some.md", "--skill", "none", "--quiet")


@pytest.fixture
def other() -> Iterator[LoopbackProvider]:
    """A second provider, which is less reliable."""
    with LoopbackProvider.in_thread(world_answers(WorldRules(noise=0.4))) as provider:
        yield provider


@pytest.fixture
def ill() -> Iterator[LoopbackProvider]:
    """A provider whose login is dead."""
    with LoopbackProvider.in_thread(
        world_answers(), behave=lambda call: Misbehaviour.status(401)
    ) as provider:
        yield provider


@pytest.fixture(autouse=True)
def _skill(skillopt: Command) -> None:
    Path("some.md").write_text("# Some\n")


def targets(*providers: LoopbackProvider) -> tuple[str, ...]:
    return tuple(
        word
        for name, one in zip("abc", providers, strict=False)
        for word in ("--target", f"compatible:{name}@{one.base_url}")
    )


def test_skills_and_targets_make_a_table_of_cells(
    skillopt: Command, provider: LoopbackProvider, other: LoopbackProvider
) -> None:
    ran = skillopt(*WORDS, *targets(provider, other), "--against", "none", "--cfg-options", *SMALL)
    assert ran.code == 0
    head = next(line for line in ran.out.splitlines() if "skill" in line)
    assert head.index("compatible:a") < head.index("compatible:b")
    assert ran.out.count("n 20, 0 invalid") == 4
    for name in ("a", "b"):
        assert f"some.md against none with compatible:{name} on val (hard, 20 tasks)" in ran.out
    assert "95 % interval" in ran.out


@pytest.mark.slow
def test_the_same_command_again_pays_nothing_and_says_the_same(
    skillopt: Command, provider: LoopbackProvider, other: LoopbackProvider
) -> None:
    words = (
        *WORDS,
        *targets(provider, other),
        "--against",
        "none",
        "--repeats",
        "2",
        "--json",
        "--cfg-options",
        *SMALL,
    )
    first = skillopt(*words).json
    assert (provider.calls, other.calls) == (80, 80)
    assert skillopt(*words).json == first
    assert (provider.calls, other.calls) == (80, 80)
    assert [(one["target"], one["skill"], one["n"]) for one in first["evaluations"]] == [
        (f"compatible:{target}", skill, 20) for target in "ab" for skill in ("some.md", "none")
    ]
    assert [(one["target"], one["skill"]) for one in first["comparisons"]] == [
        (f"compatible:{target}", "some.md") for target in "ab"
    ]
    config = json.loads((Path(first["folder"]) / "settings.json").read_text())
    assert config["targets"] == ["compatible:a", "compatible:b"]


@pytest.mark.slow
def test_a_dead_target_leaves_the_other_cells_and_ends_as_an_outage(
    skillopt: Command, provider: LoopbackProvider, ill: LoopbackProvider
) -> None:
    words = (*WORDS, *targets(ill, provider), "--cfg-options", *SMALL)
    ran = skillopt(*words)
    assert ran.code == 3
    assert (ran.out.count("not measured"), ran.out.count("n 20, 0 invalid")) == (2, 2)
    assert "compatible:a: " in ran.err and "refuses the login" in ran.err
    ran = skillopt(*words[:-4], "--json", *words[-4:])
    data = ran.json
    assert ran.code == 3
    assert [(one["target"], one["skill"]) for one in data["missing"]] == [
        ("compatible:a", "some.md"),
        ("compatible:a", "none"),
    ]
    assert [one["target"] for one in data["evaluations"]] == ["compatible:b"] * 2
    assert provider.calls == 40


def test_where_nothing_could_be_measured_nothing_is_shown(skillopt: Command, ill: LoopbackProvider) -> None:
    ran = skillopt(*WORDS, *targets(ill), "--cfg-options", *SMALL)
    assert (ran.code, ran.out) == (3, "")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--target_model", "world"), "--target and --target_model"),
        (("--cfg-options", "model.target.api_key=sk-of-one-target-only"), "model.target.api_key"),
        (("--cfg-options", "model.target.base_url=http://127.0.0.1:1/v1"), "model.target has two endpoints"),
        (("--cfg-options", 'model.target.price={"input": 1, "output": 2}'), "model.target.price"),
        (("--target", "openai:x"), "OPENAI_API_KEY"),
        (("--target", "opnai:x"), "openai"),
    ],
)
def test_what_cannot_be_shared_by_targets_is_refused(
    skillopt: Command, provider: LoopbackProvider, other: LoopbackProvider, more: tuple[str, ...], told: str
) -> None:
    ran = skillopt(*WORDS, *targets(provider, other), *more)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "sk-of-one" not in ran.err
    assert provider.calls + other.calls == 0


def test_the_key_of_one_target_never_reaches_another(skillopt: Command, provider: LoopbackProvider) -> None:
    words = (*WORDS, "--target", "openai:x", "--target", f"compatible:a@{provider.base_url}")
    ran = skillopt(*words, "--cfg-options", "model.target.api_key=sk-of-one-target-only")
    assert (ran.code, provider.calls) == (2, 0)
    assert "keep keys in the environment" in ran.err
