"""Credentials are collected for the scrubber and shown nowhere."""

from __future__ import annotations

import json

import pytest

from skillopt.config.record import as_json, render, run_identity
from skillopt.config.roles import resolve_role

SECRET = "sk-very-secret-value"


def test_every_credential_is_collected_used_or_not(run, write):
    write(".env", "ANTHROPIC_API_KEY=dotenv-secret\n")
    write(
        "c.yaml",
        "model:\n  azure_openai_api_key: file-secret\n  target: {api_key: role-secret, base_url: 'http://me:url-secret@host/v1'}\n",
    )
    resolved = run(
        "c.yaml",
        environ={"OPENAI_API_KEY": "environment-secret", "ANTHROPIC_BASE_URL": "http://u:other-secret@h/v1"},
        options=[
            "model.optimizer.api_key=option-secret",
            "model.target.name=compatible:x@http://me:url-secret@host/v1",
        ],
        flags={"azure_openai_api_key": "flag-secret"},
    )
    names = ("dotenv", "file", "role", "url", "environment", "other", "option", "flag")
    assert set(resolved.secrets) == {f"{name}-secret" for name in names}


def test_no_credential_is_in_what_is_shown_or_printed(run, write):
    write(
        "c.yaml",
        f"model:\n  target: {{name: 'compatible:m@http://me:{SECRET}@host/v1', api_key: {SECRET}x}}\n",
    )
    resolved = run("c.yaml", environ={"OPENAI_API_KEY": f"{SECRET}y"})
    shown = (
        json.dumps(render(resolved)) + json.dumps(as_json(resolved)) + repr(resolved) + repr(resolved.config)
    )
    shown += (
        resolved.config.model_dump_json()
        + json.dumps(run_identity(resolved.config))
        + repr(resolve_role(resolved.config, "optimizer"))
    )
    # A base_url keeps its password inside the program, where the provider needs it.
    assert SECRET not in shown.replace(repr(resolved.config.model.target.base_url), "").replace(
        json.dumps(resolved.config.model.target.base_url), ""
    )
    rows = {key: (value, source) for key, value, source in render(resolved)}
    assert rows["model.target.api_key"] == ("[set]", "config c.yaml:2")
    assert rows["model.target.base_url"][0] == "http://host/v1"
    assert rows["model.optimizer.api_key"] == ("[set]", "environment OPENAI_API_KEY")
    assert SECRET not in json.dumps(render(resolved))


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


def test_no_credential_is_in_an_error_about_an_option(fails):
    assert SECRET not in fails(options=[f"model.target.api_key:{SECRET}", f"model.target.apikey={SECRET}"])


@pytest.mark.parametrize(
    "given", [{"flags": {"azure_openai_api_key": SECRET}}, {"options": [f"model.target.api_key={SECRET}"]}]
)
def test_a_key_on_the_command_line_works_and_warns(given, run):
    warnings = run(**given).warnings
    assert len(warnings) == 1
    assert "environment" in warnings[0]
    assert SECRET not in warnings[0]


def test_a_key_in_the_environment_does_not_warn(run):
    assert run(environ={"OPENAI_API_KEY": SECRET}).warnings == ()
