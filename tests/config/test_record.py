"""What is printed, what identifies a run, what the docs are made from; and that no credential is in any of it."""

from __future__ import annotations

import json

import pytest

from skillopt.benchmarks import benchmarks
from skillopt.config.keys import describe, flag_leaf, tree
from skillopt.config.record import as_json, render, run_identity
from skillopt.config.roles import resolve_role

BASE = {"env": "toy", "target_model": "openai:t", "optimizer_model": "openai:o"}
SECRET = "sk-very-secret-value"


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


def test_what_can_change_a_result_changes_the_identity_and_nothing_else_does(run):
    base = run_identity(run(flags=BASE).config)
    json.dumps(base)
    for flag in (
        *({"target_model": "openai:other"}, {"target_model": "anthropic:t"}, {"reasoning_effort": "low"}),
        *({"model.target.temperature": 0.5}, {"model.target.max_tokens": 5}, {"batch_size": 3}),
        *({"minibatch_size": 3}, {"edit_budget": 3}, {"gate_metric": "soft"}, {"sel_env_num": 3}),
        *({"difficulty": 2}, {"split_ratio": "1:1:1"}),
    ):
        assert run_identity(run(flags={**BASE, **flag}).config) != base, flag
    for flag in (
        *(
            {"workers": 1},
            {"analyst_workers": 1},
            {"exec_timeout": 9},
            {"out_root": "x"},
            {"skill_init": "x"},
        ),
        *({"split_dir": "x"}, {"budget": "$1"}, {"cache.path": "x"}, {"output.predictions": True}),
        *({"store.tasks": False}, {"model.target.base_url": "http://x/v1"}, {"model.target.timeout": 9}),
        *({"model.target.api_key": "sk-123456"}, {"target_model": "t", "backend": "openai"}),
        {"model.target.price.input": 9, "model.target.price.output": 9},
    ):
        assert run_identity(run(flags={**BASE, **flag}).config) == base, flag


def test_files_are_identified_by_name_not_by_folder(run, write):
    write("a/p.md", "x")
    write("b/p.md", "x")
    one, other = (run(flags={**BASE, "prompt": f"{folder}/p.md"}).config for folder in "ab")
    assert run_identity(one) == run_identity(other)
    assert one.env.settings != other.env.settings
    local = run(flags={"target_model": "local:m/x.gguf"}).config
    assert run_identity(local)["model"]["target"]["name"] == "local:x.gguf"


def test_every_key_says_what_it_means():
    for row in describe():
        assert row.description.endswith("."), row.key
        json.dumps(row.default)
    assert [flag_leaf(name).type for name in ("batch_size", "gate_metric")] == ["int", "hard | soft | mixed"]
    for name in benchmarks.names():
        keys = {row.key: row for row in describe(name)}
        for field in benchmarks.get(name).Settings.model_fields:
            assert keys[f"env.{field}"].description, (name, field)


# Credentials


def test_every_credential_is_collected_used_or_not(run, write):
    write(".env", "ANTHROPIC_API_KEY=dotenv-secret\n")
    write(
        "c.yaml",
        "model:\n  azure_openai_api_key: file-secret\n"
        "  target: {api_key: role-secret, base_url: 'http://me:url-secret@host/v1'}\n",
    )
    resolved = run(
        "c.yaml",
        environ={"OPENAI_API_KEY": "environment-secret", "ANTHROPIC_BASE_URL": "http://u:other-secret@h/v1"}
        | {"CLAUDE_CODE_OAUTH_TOKEN": "oauth-secret"},
        options=[
            "model.optimizer.api_key=option-secret",
            "model.target.name=compatible:x@http://me:url-secret@host/v1",
        ],
        flags={"azure_openai_api_key": "flag-secret", "minimax_api_key": "mini-secret"},
    )
    names = ("dotenv", "file", "role", "url", "environment", "other", "option", "flag", "oauth", "mini")
    assert set(resolved.secrets) == {f"{name}-secret" for name in names}
    assert "-secret" not in str(resolved.warnings)


def test_no_credential_is_in_what_is_shown_or_printed(run, write):
    write(
        "c.yaml",
        f"model:\n  target: {{name: 'compatible:m@http://me:{SECRET}@host/v1', api_key: {SECRET}x}}\n",
    )
    resolved = run("c.yaml", environ={"OPENAI_API_KEY": f"{SECRET}y"})
    config = resolved.config
    shown = json.dumps([render(resolved), as_json(resolved), run_identity(config)]) + repr(resolved)
    assert SECRET not in shown + repr(resolve_role(config, "optimizer"))
    # A base_url keeps its password inside the program, where the provider needs it.
    url = config.model.target.base_url
    assert SECRET not in (repr(config) + config.model_dump_json()).replace(url, "")
    rows = {key: (value, source) for key, value, source in render(resolved)}
    assert rows["model.target.api_key"] == ("[set]", "config c.yaml:2")
    assert rows["model.target.base_url"][0] == "http://host/v1"
    assert rows["model.optimizer.api_key"] == ("[set]", "environment OPENAI_API_KEY")


@pytest.mark.parametrize(
    "text",
    [
        f"model:\n  target:\n    api_kye: {SECRET}\n",
        f"model:\n  minimax_api_kye: {SECRET}\n",
        f"model:\n  target:\n    api_key: [{SECRET}]\n",
        f"model:\n  azure_openai_api_key: {{a: {SECRET}}}\n",
        f"model:\n  target: {{name: 'compatible:m@http://a:{SECRET}@h/v1', base_url: 'http://b:{SECRET}@g/v1'}}\n",
        f"model:\n  target:\n    api_key: {SECRET}\n    name: [{SECRET}]\n",
        f'model: {{target: {{api_key: "{SECRET}\n',
        f"api_key {SECRET}\n",
        f"model: {{target: {{api_key: !x {SECRET}}}}}\n",
    ],
)
def test_no_credential_is_in_an_error(text, fails, write):
    write("c.yaml", text)
    assert SECRET not in fails("c.yaml")
    assert SECRET not in fails(options=[f"model.target.api_key:{SECRET}", f"model.target.apikey={SECRET}"])


def test_a_key_on_the_command_line_works_and_warns_and_one_of_the_environment_does_not(run):
    for given in (
        {"flags": {"azure_openai_api_key": SECRET}},
        {"options": [f"model.target.api_key={SECRET}"]},
    ):
        (warning,) = run(**given).warnings
        assert "environment" in warning and SECRET not in warning
    assert run(environ={"OPENAI_API_KEY": SECRET}).warnings == ()
