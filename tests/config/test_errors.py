"""Bad input: the key, where it stands, what was expected, and the near miss - all of it at once."""

from __future__ import annotations

import pytest

from skillopt.config.load import load
from skillopt.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("train.bach_size", "Did you mean 'train.batch_size'?"),
        ("train.learning_rate", "Did you mean 'optimizer.learning_rate'?"),
        ("model.target.temprature", "Did you mean 'model.target.temperature'?"),
        ("env.dificulty", "Did you mean 'env.difficulty'?"),
        ("trian.seed", "Did you mean 'train.seed'?"),
        ("bach_size", "Did you mean 'batch_size'?"),
        ("gate.xyzzy", "Known: policy, alpha, max_chars, confirm_draws, max_tokens_increase,"),
    ],
)
def test_an_unknown_key_names_the_near_miss(key, near, fails):
    message = fails(options=[f"{key}=1"], flags={"env": "toy"})
    assert message.startswith(f"{key}: unknown key.") or message.startswith(f"{key} (")
    assert near in message


def test_an_unknown_key_of_a_file_names_the_line(fails, write):
    write("c.yaml", "train:\n  seed: 1\n  bach_size: 3\n")
    assert fails("c.yaml") == "train.bach_size (c.yaml:3): unknown key. Did you mean 'train.batch_size'?"


def test_an_unknown_section_and_an_unknown_top_level_key_name_the_line(fails, write):
    write("c.yaml", "trian:\n  seed: 1\nbach_size: 3\n")
    message = fails("c.yaml")
    assert "c.yaml:1: no section named 'trian'. Did you mean 'train'?" in message
    assert "bach_size (c.yaml:3): unknown key. Did you mean 'batch_size'?" in message


def test_an_unknown_flag_names_the_near_miss(fails):
    assert fails(flags={"bach_size": 3}) == "--bach_size: unknown key. Did you mean 'batch_size'?"


def test_a_key_that_is_overridden_is_still_checked(fails, write):
    write("b.yaml", "train: {sed: 1}\n")
    write("c.yaml", "_base_: b.yaml\ntrain: {seed: 1}\n")
    assert "train.sed (b.yaml:1): unknown key" in fails("c.yaml")


def test_an_unknown_benchmark_names_the_near_miss_and_spares_its_keys(fails):
    assert (
        fails(options=["env.name=tooy", "env.difficulty=2"])
        == "env.name: No benchmark named 'tooy'. Did you mean 'toy'?"
    )


def test_a_benchmarks_key_without_a_benchmark_says_so(fails):
    assert "No benchmark is named (env.name)" in fails(options=["env.difficulty=2"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: {batch_size: forty}", "train.batch_size (c.yaml:1): expected a whole number, not 'forty'"),
        ("train: {batch_size: 1.5}", "train.batch_size (c.yaml:1): expected a whole number, not 1.5"),
        ("train: {batch_size: true}", "train.batch_size (c.yaml:1): expected a whole number, not True"),
        ("train: {batch_size: 0}", "train.batch_size (c.yaml:1): expected at least 1, not 0"),
        ("evaluation: {use_gate: 1}", "evaluation.use_gate (c.yaml:1): expected true or false, not 1"),
        (
            "evaluation: {gate_mixed_weight: 2}",
            "evaluation.gate_mixed_weight (c.yaml:1): expected at most 1.0, not 2",
        ),
        ("evaluation: {gate_metric: hrad}", "is not one of hard, soft, mixed. Did you mean 'hard'?"),
        ("optimizer: {lr_scheduler: cosin}", "Did you mean 'cosine'?"),
        ("gradient: {merge_batch_size: 1}", "expected at least 2, not 1"),
        ("model: {target: [a]}", "model.target (c.yaml:1): expected text, not ['a']"),
        ("model: {target: {price: {input: 1}}}", "model.target.price.output: is missing"),
        ("model: {target: {price: 3}}", "model.target.price (c.yaml:1): is a section"),
        ("train: 3", "c.yaml:1: 'train' is a section"),
        ("budget: 3", "budget takes text"),
        ("budget: 3 apples", "unknown unit"),
        ("env: {name: toy, difficulty: 0}", "env.difficulty (c.yaml:1): expected at least 1, not 0"),
        ("env: {name: toy, labels: [1]}", "env.labels (c.yaml:1): expected text, not [1]"),
        ("env: {workers: null}", "env.workers (c.yaml:1): expected a whole number, not None"),
        ("train: {seed: 'x', batch_size: y}", "expected a whole number, not 'y'"),
    ],
)
def test_a_wrong_value_names_key_value_and_what_was_expected(text, said, fails, write):
    write("c.yaml", text + "\n")
    assert said in fails("c.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 3_000 + "]" * 3_000, "!!int abc", "[" * 3_000])
def test_a_value_that_python_cannot_read_is_refused_by_its_key(value, fails, write):
    assert fails(options=[f"train.batch_size={value}"]).partition("train.batch_size: ")[2]
    write("c.yaml", f"train:\n  batch_size: {value}\n")
    assert "c.yaml:" in fails("c.yaml")


def test_everything_wrong_is_said_at_once_one_line_each(fails, write):
    write(
        "c.yaml",
        "train: {batch_size: x, sed: 1}\nenv: {name: toy, difficulty: hard}\ngate: {policy: lenient}\n",
    )
    lines = fails("c.yaml", flags={"num_epochs": 0}, options=["nokey"]).splitlines()
    assert len(lines) == 6
    for part in ("batch_size", "sed", "difficulty", "policy", "num_epochs", "nokey"):
        assert sum(part in line for line in lines) == 1


@pytest.mark.parametrize(
    "key",
    [
        "train.steps_per_epoch",
        "optimizer.meta_learning_rate",
        "gradient.max_analyst_rounds",
        "env.judge_model",
    ],
)
def test_a_dead_public_key_loads_with_one_warning(key, run, write):
    section, name = key.split(".")
    write("b.yaml", f"{section}: {{{name}: 3}}\n")
    warnings = run("b.yaml").warnings
    assert len(warnings) == 1
    assert key in warnings[0]
    assert "no effect" in warnings[0]


def test_dead_public_flags_warn_too(run):
    assert (
        len(
            run(
                flags={
                    "meta_edit_budget": 3,
                    "max_analyst_rounds": 2,
                    "judge_retries": 1,
                    "codex_exec_full_auto": True,
                }
            ).warnings
        )
        == 4
    )


@pytest.mark.parametrize(
    ("key", "harmless", "asking", "said"),
    [
        ("evaluation.use_semantic_density", "false", "true", "rewards a skill for shouting"),
        ("env.max_turns", "1", "3", "asked once"),
    ],
)
def test_what_is_refused_loads_while_it_asks_for_nothing(key, harmless, asking, said, run, fails, write):
    assert run(options=[f"{key}={harmless}"]).warnings == ()
    section, name = key.split(".")
    write("c.yaml", f"{section}:\n  {name}: {harmless}\n")
    assert run("c.yaml").warnings == ()
    message = fails(options=[f"{key}={asking}"])
    assert said in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "silent"),
    [
        ("model.codex_trace_to_optimizer", "true"),
        ("env.split_output_dir", ""),
    ],
)
def test_a_dead_key_with_its_public_default_is_not_worth_a_word(key, silent, run):
    assert run(options=[f"{key}={silent}"]).warnings == ()
    assert len(run(options=[f"{key}=else"]).warnings) == 1


def test_what_only_belongs_to_a_refused_key_loads_whatever_it_says(run, write):
    write("c.yaml", "evaluation:\n  semantic_density_weight: 0.3\n  leading_words: [must, never]\n")
    assert run("c.yaml").warnings == ()


@pytest.mark.parametrize(
    ("flag", "owner"),
    [
        ("max_steps", "alfworld"),
        ("data_root", "alfworld, docvqa, spreadsheetbench"),
        ("use_sketch", "livemathematicianbench"),
    ],
)
def test_a_flag_of_another_benchmark_names_that_benchmark(flag, owner, tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(None, flags={"env": "searchqa", flag: "1"}, options=[], environ={}, cwd=tmp_path)
    assert str(caught.value) == f"--{flag}: is a key of {owner}, and env.name is searchqa"
