"""What is printed, what identifies a run, and what the docs are made from."""

from __future__ import annotations

import json

import pytest

from skillopt.benchmarks import benchmarks
from skillopt.config.keys import describe, flag_leaf, tree
from skillopt.config.record import as_json, render, run_identity

BASE = {"env": "toy", "target_model": "openai:t", "optimizer_model": "openai:o"}


def test_every_key_is_shown_once_with_value_and_source(run):
    resolved = run(flags=BASE)
    rows = render(resolved)
    rare = (".options.", ".agent.", "model.judge.", "model.proposer.")
    always = [key for key in tree() if not key.startswith("env.") and not any(part in key for part in rare)]
    assert [key for key, _value, _source in rows if not key.startswith("env.")] == always
    assert ("env.difficulty", 1, "default") in rows
    assert ("env.name", "toy", "flag --env") in rows
    assert as_json(resolved)["env"]["labels"] == []
    json.dumps(rows)


@pytest.mark.parametrize(
    "flag",
    [
        {"target_model": "openai:other"},
        {"target_model": "anthropic:t"},
        {"model.target.temperature": 0.5},
        {"model.target.max_tokens": 5},
        {"reasoning_effort": "low"},
        {"batch_size": 3},
        {"minibatch_size": 3},
        {"edit_budget": 3},
        {"gate_metric": "soft"},
        {"sel_env_num": 3},
        {"difficulty": 2},
        {"split_ratio": "1:1:1"},
    ],
)
def test_what_can_change_a_result_changes_the_identity(flag, run):
    assert run_identity(run(flags={**BASE, **flag}).config) != run_identity(run(flags=BASE).config)


@pytest.mark.parametrize(
    "flag",
    [
        {"workers": 1},
        {"analyst_workers": 1},
        {"exec_timeout": 9},
        {"out_root": "x"},
        {"skill_init": "x"},
        {"split_dir": "x"},
        {"budget": "$1"},
        {"cache.path": "x"},
        {"output.predictions": True},
        {"store.tasks": False},
        {"model.target.base_url": "http://x/v1"},
        {"model.target.api_key": "sk-123456"},
        {"model.target.timeout": 9},
        {"model.target.price.input": 9, "model.target.price.output": 9},
        {"target_model": "t", "backend": "openai"},
    ],
)
def test_what_cannot_change_a_result_leaves_the_identity_alone(flag, run):
    assert run_identity(run(flags={**BASE, **flag}).config) == run_identity(run(flags=BASE).config)


def test_a_prompt_file_is_identified_by_name_not_by_folder(run, write):
    write("a/p.md", "x")
    write("b/p.md", "x")
    one, other = (run(flags={**BASE, "prompt": f"{folder}/p.md"}).config for folder in "ab")
    assert run_identity(one) == run_identity(other)
    assert one.env.settings != other.env.settings


def test_an_identity_is_json(run):
    json.dumps(run_identity(run(flags=BASE).config))


def test_every_key_says_what_it_means():
    for row in describe():
        assert row.description.endswith("."), row.key
        json.dumps(row.default)
    assert [flag_leaf(name).type for name in ("batch_size", "gate_metric")] == ["int", "hard | soft | mixed"]


@pytest.mark.parametrize("name", benchmarks.names())
def test_every_benchmark_documents_its_keys(name):
    keys = {row.key: row for row in describe(name)}
    for field in benchmarks.get(name).Settings.model_fields:
        assert keys[f"env.{field}"].description, field
