"""Who wins: flag, --cfg-options, config file, environment, .env, default."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.layers import LAYERS
from skillopt.config.roles import resolve_role

GIVEN = {
    ".env": "dotenv-model",
    "environment": "environment-model",
    "config": "config-model",
    "cfg-options": "option-model",
    "flag": "flag-model",
}


@pytest.mark.parametrize("strongest", LAYERS)
def test_each_layer_beats_all_below_it_and_is_named_as_the_source(strongest, run, write):
    present = LAYERS[: LAYERS.index(strongest) + 1]
    if ".env" in present:
        write(".env", f"TARGET_DEPLOYMENT={GIVEN['.env']}\n")
    write("c.yaml", f"train:\n  seed: 7\nmodel:\n  target: {GIVEN['config']}\n")
    resolved = run(
        "c.yaml" if "config" in present else None,
        environ={"TARGET_DEPLOYMENT": GIVEN["environment"]} if "environment" in present else {},
        options=[f"model.target={GIVEN['cfg-options']}"] if "cfg-options" in present else [],
        flags={"target_model": GIVEN["flag"]} if "flag" in present else {},
    )
    expected = GIVEN.get(strongest, "gpt-5.5")
    assert resolved.config.model.target.name == f"openai:{expected}"
    source = resolved.provenance["model.target.name"]
    assert source.layer == strongest
    where = {
        "default": "",
        ".env": "TARGET_DEPLOYMENT",
        "environment": "TARGET_DEPLOYMENT",
        "config": "c.yaml:4",
        "cfg-options": "model.target",
        "flag": "--target_model",
    }
    assert source.where == where[strongest]


def test_every_key_has_a_source(run):
    resolved = run(flags={"env": "toy"})
    assert set(resolved.provenance) >= {
        "train.seed",
        "budget.usd",
        "env.difficulty",
        "model.optimizer.price.input",
    }
    assert resolved.provenance["env.name"].where == "--env"


def test_a_benchmarks_defaults_stand_below_everything_the_user_says(run):
    resolved = run(flags={"env": "toy"})
    assert (resolved.config.evaluation.repeats, resolved.config.env.workers) == (3, 7)
    assert str(resolved.provenance["evaluation.repeats"]) == "default of toy"
    assert run(flags={"env": "toy", "workers": 2}).config.env.workers == 2


def test_a_flag_that_was_not_given_says_nothing(run):
    assert run(flags={"batch_size": None, "num_epochs": 2}).config.train.batch_size == 40


def test_flags_take_typed_values_text_and_paths(run, cwd):
    config = run(
        flags={
            "env": "toy",
            "batch_size": "5",
            "use_gate": "false",
            "split_dir": Path("data"),
            "labels": "[a, b]",
        }
    ).config
    assert (config.train.batch_size, config.evaluation.use_gate) == (5, False)
    assert config.env.settings.split_dir == cwd / "data"
    assert config.env.settings.labels == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("train.seed=3", ("train", "seed"), 3),
        ("evaluation.gate_mixed_weight=0.25", ("evaluation", "gate_mixed_weight"), 0.25),
        ("evaluation.use_gate=no", ("evaluation", "use_gate"), False),
        ("evaluation.gate_metric=soft", ("evaluation", "gate_metric"), "soft"),
        ("evaluation.gate_metric=null", ("evaluation", "gate_metric"), None),
        ("model.target.temperature=1e-1", ("model", "target", "temperature"), 0.1),
        ("model.target.base_url=http://h/v1?a=b", ("model", "target", "base_url"), "http://h/v1?a=b"),
        ("model.optimizer=123", ("model", "optimizer", "name"), "openai:123"),
        ("batch_size=9", ("train", "batch_size"), 9),
    ],
)
def test_options_are_read_by_the_type_of_their_key(option, key, value, run):
    found = run(options=[option]).config
    for part in key:
        found = getattr(found, part)
    assert found == value


def test_a_later_option_beats_an_earlier_one(run):
    assert run(options=["train.seed=1", "train.seed=2"]).config.train.seed == 2


def test_a_blank_in_a_public_file_leaves_the_environment_alone(run, write):
    write("c.yaml", "model:\n  azure_openai_endpoint: ''\n  reasoning_effort: ''\n")
    resolved = run(
        "c.yaml", environ={"AZURE_OPENAI_ENDPOINT": "http://azure/v1", "AZURE_OPENAI_API_KEY": "k" * 8}
    )
    assert resolved.config.model.target.base_url == "http://azure/v1"
    assert resolved.provenance["model.target.base_url"].where == "AZURE_OPENAI_ENDPOINT"
    assert resolved.config.model.reasoning_effort is None


def test_a_lower_limit_takes_the_end_of_its_schedule_along(run, write):
    write("c.yaml", "optimizer:\n  min_learning_rate: 3\n")
    config = run("c.yaml", flags={"edit_budget": 1}).config
    assert (config.optimizer.learning_rate, config.optimizer.min_learning_rate) == (1, 1)


def test_an_end_of_the_schedule_written_above_the_limit_is_refused(fails):
    assert "min_learning_rate (5) is above learning_rate (2)" in fails(
        flags={"edit_budget": 2, "min_edit_budget": 5}
    )


def test_the_targets_cap_has_two_names_and_one_value(run, fails, write):
    key = {"OPENAI_API_KEY": "sk-123456"}
    write("both.yaml", "env:\n  max_completion_tokens: 50\nmodel:\n  target:\n    max_tokens: 60\n")
    write("public.yaml", "env:\n  max_completion_tokens: 50\n")
    assert "same key" in fails("both.yaml")
    assert resolve_role(run("public.yaml", environ=key).config, "target").max_tokens == 50
    assert (
        resolve_role(
            run("public.yaml", environ=key, flags={"model.target.max_tokens": 70}).config, "target"
        ).max_tokens
        == 70
    )
    assert resolve_role(run("public.yaml", environ=key).config, "optimizer").max_tokens == 16384
