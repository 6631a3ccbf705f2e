"""Config files: inheritance, duplicates, flat and structured form, packaged names, paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.files import packaged_names, resolve_path
from skillopt.config.keys import FLAT_NAMES
from skillopt.errors import ConfigError


def test_a_file_inherits_key_by_key_from_its_base(run, write):
    write("base/b.yaml", "train: {seed: 1, batch_size: 2}\n")
    write("child/c.yaml", "_base_: ../base/b.yaml\ntrain:\n  seed: 3\n")
    resolved = run("child/c.yaml")
    assert (resolved.config.train.seed, resolved.config.train.batch_size) == (3, 2)
    assert resolved.provenance["train.batch_size"].where == "base/b.yaml:1"
    assert resolved.provenance["train.seed"].where == "child/c.yaml:3"


def test_bases_may_have_bases(run, write):
    write("a.yaml", "train: {seed: 1}\n")
    write("b.yaml", "_base_: a.yaml\n")
    write("c.yaml", "_base_: b.yaml\n")
    assert run("c.yaml").config.train.seed == 1


def test_bases_in_a_circle_are_refused_with_the_circle(fails, write):
    write("a.yaml", "_base_: b.yaml\n")
    write("b.yaml", "_base_: a.yaml\n")
    assert "a.yaml -> b.yaml -> a.yaml" in fails("a.yaml")


def test_a_missing_base_names_the_line(fails, write):
    write("a.yaml", "train: {seed: 1}\n_base_: nothere.yaml\n")
    assert fails("a.yaml").startswith("a.yaml:2: _base_: No config file 'nothere.yaml'")


def test_a_list_of_bases_is_refused(fails, write):
    write("a.yaml", "_base_: [x.yaml]\n")
    assert "one file name" in fails("a.yaml")


def test_a_packaged_config_may_be_a_base(run, write):
    write("a.yaml", "_base_: configs/_base_/default.yaml\ntrain: {seed: 5}\n")
    resolved = run("a.yaml")
    assert resolved.config.train.seed == 5
    assert resolved.provenance["train.batch_size"].where.startswith("configs/_base_/default.yaml:")


def test_a_key_twice_is_refused_with_both_lines(fails, write):
    write("a.yaml", "train:\n  seed: 1\n  batch_size: 2\n  seed: 3\ntrain: {}\n")
    message = fails("a.yaml")
    assert "a.yaml:4: key 'seed' is already on line 2" in message
    assert "a.yaml:5: key 'train' is already on line 1" in message


def test_a_key_twice_inside_a_list_is_refused_too(fails, write):
    write("a.yaml", "env:\n  labels:\n    - {a: 1, a: 2}\n")
    assert "a.yaml:3: key 'a' is already on line 3" in fails("a.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "train: [1, 2",
        "a: b: c\n",
        "- 1\n",
        "train: &x {seed: *x}\n",
        "train: {<<: {seed: 1}}\n",
        "x: !!python/object:os.x 1\n",
        "train: {seed: !!int abc}\n",
        "train: {seed: !!timestamp 2026-02-30}\n",
        "train: {seed: !!timestamp x}\n",
        "train: {seed: !!bool maybe}\n",
        "train: {seed: [!!bool maybe]}\n",
        "_base_: ~nobody-of-this-name/x.yaml\n",
        f"_base_: {'a' * 400}\n",
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n" for b, c in ["ab", "bc", "cd", "de", "ef", "fg", "gh"]
        ),
    ],
)
def test_what_is_no_config_ends_in_one_message(text, fails, write):
    write("a.yaml", text)
    message = fails("a.yaml")
    assert message.startswith("a.yaml:")
    assert len(message.splitlines()) == 1


def test_a_ratio_and_other_lookalikes_of_numbers_stay_text(run, write):
    write("a.yaml", "env:\n  name: toy\n  split_ratio: 2:1:7\n  mode: 2024-01-01\n")
    settings = run("a.yaml").config.env.settings
    assert (settings.split_ratio, settings.mode) == ("2:1:7", "2024-01-01")


def test_an_empty_file_and_empty_sections_say_nothing(run, write):
    write("a.yaml", "")
    write("b.yaml", "train:\nmodel:\n  target:\n")
    assert run("a.yaml").config == run("b.yaml").config == run().config


def test_the_legacy_flat_form_means_the_same(run, write):
    write(
        "flat.yaml",
        "optimizer_model: o\ntarget_model: t\nenv: toy\nedit_budget: 3\nbatch_size: 5\ndifficulty:"
        " 2\nsplit_ratio: 1:1:1\n",
    )
    write(
        "tree.yaml",
        "model: {optimizer: o, target: {name: t}}\nenv: {name: toy, difficulty: 2, split_ratio: '1:1:1'}\n"
        "optimizer: {learning_rate: 3}\ntrain: {batch_size: 5}\n",
    )
    assert run("flat.yaml").config == run("tree.yaml").config


def test_the_short_flat_form_means_the_same(run, write):
    write(
        "short.yaml",
        "task: toy\nseed_skill: s.md\nepochs: 2\nbatch_size: 5\nminibatch_size: 3\nlearning_rate: 3\nlr_min:"
        " 1\nn_workers: 4\n",
    )
    write(
        "tree.yaml",
        "env: {name: toy, skill_init: s.md, workers: 4}\ntrain: {num_epochs: 2, batch_size: 5}\ngradient:"
        " {minibatch_size: 3}\noptimizer: {learning_rate: 3, min_learning_rate: 1}\n",
    )
    assert run("short.yaml").config == run("tree.yaml").config


def test_within_a_file_the_structured_form_wins(run, write):
    write("a.yaml", "train: {batch_size: 5}\nbatch_size: 6\n")
    assert run("a.yaml").config.train.batch_size == 5


def test_a_flat_child_beats_a_structured_base_and_the_other_way_round(run, write):
    write("tree.yaml", "train: {batch_size: 5}\n")
    write("flat.yaml", "batch_size: 6\n")
    write("flat_child.yaml", "_base_: tree.yaml\nbatch_size: 7\n")
    write("tree_child.yaml", "_base_: flat.yaml\ntrain: {batch_size: 8}\n")
    assert run("flat_child.yaml").config.train.batch_size == 7
    assert run("tree_child.yaml").config.train.batch_size == 8


@pytest.mark.slow
def test_every_flat_name_reaches_a_key(run):
    for name in FLAT_NAMES:
        value = "$1" if name == "budget" else None
        assert run(flags={"env": "toy", name: value} if value else {"env": "toy"})


def test_config_takes_a_path_first_and_a_packaged_name_second(run, fails, write):
    assert "searchqa" in packaged_names()
    assert "_base_" not in " ".join(packaged_names())
    write("quickstart.yaml", "train: {seed: 77}\n")
    assert run("quickstart.yaml").config.train.seed == 77
    assert "Did you mean 'searchqa'?" in fails("serchqa")
    assert "No config file '../schema'" in fails("../schema")


def test_paths_in_a_file_are_looked_up_beside_it_then_in_the_working_directory(run, write, cwd):
    write("conf/c.yaml", "env: {name: toy, skill_init: beside.md, split_dir: here, out_root: out}\n")
    write("conf/beside.md", "x")
    (cwd / "here").mkdir()
    (cwd / "conf/out").mkdir()
    env = run("conf/c.yaml").config.env
    assert env.skill_init == cwd / "conf/beside.md"
    assert env.settings.split_dir == cwd / "here"
    assert env.out_root == cwd / "out"  # what is written belongs to the working directory


def test_a_path_that_exists_in_both_places_is_refused(fails, write):
    write("conf/c.yaml", "env:\n  skill_init: s.md\n")
    write("conf/s.md", "one")
    write("s.md", "other")
    message = fails("conf/c.yaml")
    assert message.startswith("env.skill_init (conf/c.yaml:2): 's.md' exists both as")
    assert "write './s.md' for the first" in message


def test_a_path_that_begins_with_a_dot_means_the_file_beside_the_configuration(run, write, cwd):
    write("conf/c.yaml", "env: {name: toy, skill_init: ./s.md, split_dir: ./here}\n")
    write("conf/s.md", "one")
    write("s.md", "other")
    (cwd / "here").mkdir()
    env = run("conf/c.yaml").config.env
    assert env.skill_init == cwd / "conf/s.md"
    assert env.settings.split_dir == cwd / "here", "what is not there is looked for as ever"


def test_one_file_seen_from_both_places_is_no_conflict(run, write, cwd):
    write("conf/c.yaml", "env: {skill_init: s.md}\n")
    write("s.md", "one")
    (cwd / "conf/s.md").symlink_to(cwd / "s.md")
    assert run("conf/c.yaml").config.env.skill_init == cwd / "conf/s.md"


def test_a_base_looks_beside_itself(run, write, cwd):
    write("base/b.yaml", "env: {skill_init: s.md}\n")
    write("base/s.md", "x")
    write("c.yaml", "_base_: base/b.yaml\n")
    assert run("c.yaml").config.env.skill_init == cwd / "base/s.md"


def test_a_path_on_a_flag_belongs_to_the_working_directory(run, write, cwd):
    write("conf/c.yaml", "train: {seed: 1}\n")
    write("conf/s.md", "x")
    assert run("conf/c.yaml", flags={"skill_init": "s.md"}).config.env.skill_init == cwd / "s.md"


def test_a_template_that_is_a_file_follows_the_path_rule_and_text_does_not(run, write, cwd):
    write("conf/c.yaml", "env: {name: toy, prompt: ask.md}\n")
    write("conf/ask.md", "x")
    assert run("conf/c.yaml").config.env.settings.prompt == str(cwd / "conf/ask.md")
    write("conf/d.yaml", "env: {name: toy, prompt: 'Read {text}.'}\n")
    assert run("conf/d.yaml").config.env.settings.prompt == "Read {text}."


PUBLIC = """
model:
  backend: azure_openai
  optimizer: gpt-5.5
  target: gpt-5.5
  optimizer_backend: openai_chat
  target_backend: openai_chat
  reasoning_effort: medium
  rewrite_reasoning_effort: ""
  rewrite_max_completion_tokens: 64000
  codex_exec_path: ""
  codex_exec_use_sdk: null
  codex_trace_to_optimizer: true
  claude_code_exec_path: claude
  claude_code_exec_use_sdk: auto
  claude_code_exec_effort: medium
  claude_code_exec_max_thinking_tokens: 16384
  azure_openai_endpoint: ""
  azure_openai_api_version: 2024-12-01-preview
  azure_openai_api_key: ""
  azure_openai_auth_mode: ""
  azure_openai_ad_scope: https://cognitiveservices.azure.com/.default
  optimizer_azure_openai_endpoint: ""
  target_azure_openai_api_version: ""
  qwen_chat_thinking_mode: ""
  minimax_model: MiniMax-M3
  minimax_temperature: 0.7
  minimax_enable_thinking: false
train: {num_epochs: 4, train_size: 0, batch_size: 40, accumulation: 1, seed: 42}
gradient: {minibatch_size: 8, merge_batch_size: 8, analyst_workers: 16, failure_only: false}
optimizer:
  learning_rate: 4
  min_learning_rate: 2
  lr_scheduler: cosine
  lr_control_mode: fixed
  skill_update_mode: patch
  use_slow_update: true
  slow_update_samples: 20
  longitudinal_pair_policy: mixed
  use_meta_skill: true
  use_skill_aware_reflection: false
  skill_aware_appendix_source: both
  skill_aware_consolidate_threshold: 0
evaluation:
  use_gate: true
  gate_metric: hard
  gate_mixed_weight: 0.5
  use_semantic_density: false
  semantic_density_weight: 0.05
  leading_words: builtin
  sel_env_num: 0
  test_env_num: 0
  eval_test: true
env:
  name: toy
  skill_init: ""
  out_root: ""
  split_ratio: 2:1:7
  split_dir: ""
  split_output_dir: ""
  max_turns: 1
  max_completion_tokens: 16384
  workers: 24
  exec_timeout: 120
"""


def test_a_public_file_with_the_public_defaults_loads_as_it_is(run, write):
    write("public.yaml", PUBLIC)
    resolved = run(
        "public.yaml",
        environ={"AZURE_OPENAI_ENDPOINT": "http://az/v1", "AZURE_OPENAI_API_KEY": "azure-key-1"},
    )
    assert resolved.warnings == ()
    assert resolved.config.model.target.name == "azure:gpt-5.5"
    assert resolved.config.model.target.base_url == "http://az/v1"
    assert resolved.config.model.reasoning_effort == "medium"
    assert resolved.config.env.settings.split_dir is None


def test_a_name_that_is_too_long_for_a_path_is_said_and_not_raised(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no path: File name too long"):
        resolve_path("x" * 5000, folder=tmp_path, cwd=tmp_path, output=False)


def test_a_path_that_leads_up_is_told_without_the_detour(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "tasks.csv").write_text("a,b")
    found = resolve_path(
        "../tasks.csv", folder=tmp_path / "training", cwd=tmp_path / "training", output=False
    )
    assert str(found) == str(tmp_path / "tasks.csv")
