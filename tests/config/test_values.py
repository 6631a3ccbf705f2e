"""Public spellings of a value become one name when they are read."""

from __future__ import annotations

import pytest

from skillopt.config.fields import Leaf
from skillopt.config.keys import VALUE_ALIASES
from skillopt.config.schema import Config

SPELLINGS = [
    (key, word, name)
    for key, names in VALUE_ALIASES.items()
    if key.startswith("optimizer.")
    for name, words in names.items()
    for word in (name, *words)
]


@pytest.mark.parametrize(("key", "word", "name"), SPELLINGS)
def test_every_spelling_is_the_one_value(key, word, name, run, write):
    section, part = key.split(".")
    write("c.yaml", f"{section}:\n  {part}: {word}\n")
    for resolved in (
        run("c.yaml"),
        run(flags={part: word.upper()}),
        run(options=[f"{key}={word.replace('_', '-')}"]),
    ):
        assert getattr(resolved.config.optimizer, part) == name


@pytest.mark.parametrize(
    ("key", "word", "near"),
    [
        ("optimizer.lr_control_mode", "autonomos", "autonomous"),
        ("optimizer.lr_control_mode", "no_lrr", "no_lr"),
        ("optimizer.skill_update_mode", "ful_rewrite", "full_rewrite"),
        ("optimizer.longitudinal_pair_policy", "chnged", "changed"),
        ("optimizer.lr_scheduler", "cosin", "cosine"),
        ("gate.policy", "conform", "confirm"),
    ],
)
def test_an_unknown_value_is_an_error_with_the_near_miss(key, word, near, fails):
    assert f"Did you mean '{near}'?" in fails(options=[f"{key}={word}"])


def test_the_autonomous_scheduler_is_autonomous_control(run, fails, write):
    write("base.yaml", "optimizer: {lr_scheduler: cosine, lr_control_mode: fixed}\n")
    write("c.yaml", "_base_: base.yaml\noptimizer: {lr_scheduler: autonomous}\n")
    optimizer = run("c.yaml").config.optimizer
    assert (optimizer.lr_control_mode, optimizer.lr_scheduler) == ("autonomous", "cosine")
    write("d.yaml", "optimizer: {lr_scheduler: autonomous, lr_control_mode: fixed}\n")
    assert "lr_scheduler" in fails("d.yaml")


@pytest.mark.parametrize("mode", ["full_rewrite_minibatch", "full_rewrite"])
def test_whole_rewrites_have_no_limit_and_that_is_said(mode, run):
    resolved = run(flags={"skill_update_mode": mode, "lr_control_mode": "fixed"})
    assert resolved.config.optimizer.lr_control_mode == "none"
    assert str(resolved.provenance["optimizer.lr_control_mode"]) == "default under full_rewrite_minibatch"
    assert [warning for warning in resolved.warnings if "no number of edits" in warning]
    assert run(flags={"skill_update_mode": mode, "lr_control_mode": "none"}).warnings == ()


@pytest.mark.parametrize("word", ["true", "True", "yes", "on", "1"])
def test_switches_are_read_from_text(word, run):
    assert run(
        environ={"QWEN_CHAT_ENABLE_THINKING": word}, flags={"target_model": "qwen:m"}
    ).config.model.target.options["enable_thinking"]


def test_a_list_is_read_from_text_also_where_text_would_do():
    scorer = Leaf(key="env.scorer", annotation=str | list[str], default=None, description="")
    assert scorer.read('["node", "grade.js"]', is_text=True) == ["node", "grade.js"]
    assert scorer.read("cmd: node [grade].js", is_text=True) == "cmd: node [grade].js"
    prompt = Leaf(key="env.prompt", annotation=str, default=None, description="")
    assert prompt.read("[a] {field}", is_text=True) == "[a] {field}"


def test_a_configuration_has_other_values_by_key_and_stays_as_it_is() -> None:
    config = Config()
    other = config.having({"model.target.name": "world", "model.target.seed": 7, "train.folds": 1})
    assert (other.model.target.name, other.model.target.seed, other.train.folds) == ("world", 7, 1)
    assert config == Config() and other.model.optimizer == config.model.optimizer
