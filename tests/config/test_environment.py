"""Variables and .env: they apply to the provider they name, and a foreign endpoint never gets a key."""

from __future__ import annotations

import pytest

from skillopt.config.files import read_dotenv
from skillopt.config.keys import IGNORED_VARIABLES
from skillopt.config.roles import resolve_role

OPENAI, ANTHROPIC, AZURE, COMPATIBLE = "sk-openai-key", "sk-ant-key", "azure-key-1", "compat-key-1"
ALL = {
    "OPENAI_API_KEY": OPENAI,
    "OPENAI_BASE_URL": "http://openai/v1",
    "ANTHROPIC_API_KEY": ANTHROPIC,
    "ANTHROPIC_BASE_URL": "http://anthropic",
    "OPENAI_COMPATIBLE_API_KEY": COMPATIBLE,
    "OPENAI_COMPATIBLE_BASE_URL": "http://compatible/v1",
}


@pytest.mark.parametrize(
    ("model", "provider", "url", "key"),
    [
        ("openai:m", "openai", "http://openai/v1", OPENAI),
        ("anthropic:m", "anthropic", "http://anthropic", ANTHROPIC),
        ("compatible:m", "compatible", "http://compatible/v1", COMPATIBLE),
        ("m", "openai", "http://openai/v1", OPENAI),
    ],
)
def test_natural_variables_apply_only_to_the_provider_they_name(model, provider, url, key, run):
    resolved = run(environ=ALL, flags={"target_model": model})
    spec = resolve_role(resolved.config, "target")
    assert (spec.provider, spec.name, spec.base_url, spec.api_key) == (provider, "m", url, key)
    assert resolved.provenance["model.target.base_url"].layer == "environment"
    assert resolved.provenance["model.target.api_key"].where.endswith("_API_KEY")


def test_two_roles_may_have_two_providers(run):
    config = run(environ=ALL, flags={"target_model": "openai:a", "optimizer_model": "anthropic:b"}).config
    assert resolve_role(config, "target").api_key == OPENAI
    assert resolve_role(config, "optimizer").api_key == ANTHROPIC


def test_azure_by_its_three_variables_serves_bare_names(run):
    environ = {
        "AZURE_OPENAI_ENDPOINT": "http://az/v1",
        "AZURE_OPENAI_API_KEY": AZURE,
        "AZURE_OPENAI_AUTH_MODE": "openai_compatible",
    }
    spec = resolve_role(run(environ=environ, flags={"target_model": "deployment"}).config, "target")
    assert (spec.provider, spec.name, spec.base_url, spec.api_key) == (
        "azure",
        "deployment",
        "http://az/v1",
        AZURE,
    )
    assert spec.options == {"auth_mode": "openai_compatible"}


def test_an_openai_name_stays_with_openai_when_azure_is_configured(run):
    environ = {
        "AZURE_OPENAI_ENDPOINT": "http://az/v1",
        "AZURE_OPENAI_API_KEY": AZURE,
        "OPENAI_API_KEY": OPENAI,
    }
    spec = resolve_role(run(environ=environ, flags={"target_model": "openai:m"}).config, "target")
    assert (spec.provider, spec.base_url, spec.api_key) == ("openai", None, OPENAI)


def test_an_azure_and_an_openai_endpoint_in_one_layer_are_two_endpoints(run, fails):
    environ = {
        "AZURE_OPENAI_ENDPOINT": "http://az/v1",
        "AZURE_OPENAI_API_KEY": AZURE,
        "OPENAI_BASE_URL": "http://oa/v1",
    }
    message = fails(environ=environ, flags={"target_model": "m", "optimizer_model": "azure:m"})
    assert message.count("two endpoints") == 1
    assert "http://az/v1" in message
    assert "http://oa/v1" in message
    config = run(
        environ=environ,
        flags={"target_model": "m", "optimizer_model": "m", "azure_openai_endpoint": "http://az2/v1"},
    ).config
    assert config.model.target.base_url == "http://az2/v1"


@pytest.mark.parametrize(
    "options",
    [
        ["model.target=compatible:x@http://a/v1", "model.target.base_url=http://b/v1"],
        [
            "model.target=azure:x",
            "model.target.base_url=http://a/v1",
            "model.azure_openai_endpoint=http://b/v1",
        ],
    ],
)
def test_two_endpoints_for_one_role_are_an_error_naming_both(options, fails):
    message = fails(options=options)
    assert message.startswith("model.target has two endpoints")
    assert "http://a/v1" in message
    assert "http://b/v1" in message


def test_the_same_endpoint_twice_is_one(run):
    assert run(options=["model.target=compatible:x@http://a/v1", "model.target.base_url=http://a/v1/"])


def test_an_endpoint_of_the_file_beats_one_of_the_environment(run, write):
    write("c.yaml", "model: {target: {name: 'openai:m', base_url: 'http://mine/v1'}}\n")
    assert run("c.yaml", environ=ALL).config.model.target.base_url == "http://mine/v1"


def test_a_base_url_of_dotenv_goes_with_a_key_of_dotenv(run, write):
    write(".env", f"OPENAI_BASE_URL=http://gateway/v1\nOPENAI_API_KEY={OPENAI}\n")
    resolved = run(flags={"target_model": "openai:m"})
    assert resolved.config.model.target.base_url == "http://gateway/v1"
    assert resolved.provenance["model.target.base_url"].layer == ".env"
    assert resolved.warnings == ()


@pytest.mark.parametrize("elsewhere", ["environment", "config"])
def test_a_base_url_of_dotenv_never_gets_a_key_from_elsewhere(elsewhere, run, write):
    write(".env", "OPENAI_BASE_URL=http://evil/v1\nOPENAI_API_KEY=their-own-key\n")
    write("c.yaml", f"model: {{target: {{name: 'openai:m', api_key: {OPENAI}}}}}\n")
    given = (
        {"environ": {"OPENAI_API_KEY": OPENAI}, "flags": {"target_model": "openai:m"}}
        if elsewhere == "environment"
        else {"config": "c.yaml"}
    )
    resolved = run(**given)
    assert resolved.config.model.target.base_url is None
    assert resolve_role(resolved.config, "target").api_key == OPENAI
    assert any("OPENAI_BASE_URL in .env is not used" in warning for warning in resolved.warnings)


def test_an_azure_endpoint_of_dotenv_never_gets_a_key_from_elsewhere(run, write):
    write(".env", "AZURE_OPENAI_ENDPOINT=http://evil/v1\n")
    resolved = run(
        environ={"AZURE_OPENAI_API_KEY": AZURE, "OPENAI_API_KEY": OPENAI}, flags={"target_model": "m"}
    )
    assert resolved.config.model.target.name == "openai:m"
    assert resolved.config.model.target.base_url is None
    assert len(resolved.warnings) == 1
    assert "AZURE_OPENAI_ENDPOINT in .env is not used" in resolved.warnings[0]


@pytest.mark.parametrize(
    ("provider", "variable"), [("azure", "AZURE_OPENAI_API_KEY"), ("compatible", "OPENAI_COMPATIBLE_API_KEY")]
)
def test_an_endpoint_inside_a_model_string_of_dotenv_never_gets_a_key_from_elsewhere(
    provider, variable, run, write
):
    write(".env", f"TARGET_DEPLOYMENT={provider}:m@http://evil/v1\n")
    resolved = run(environ={variable: "key-of-the-user"})
    assert resolved.config.model.target.base_url is None
    assert any("TARGET_DEPLOYMENT in .env is not used" in warning for warning in resolved.warnings)


def test_dotenv_can_be_left_alone(run, write):
    write(".env", "TARGET_DEPLOYMENT=x\n")
    assert run(dotenv=False).config.model.target.name == "openai:gpt-5.5"


def test_dotenv_is_read_with_quotes_exports_and_comments(tmp_path):
    path = tmp_path / ".env"
    path.write_text(
        "# note\nexport A='one two'\nB = \"x # y\"\nC=plain # note\nD=\nnot a line\nE=a=b\nF='q' # note\n"
    )
    assert read_dotenv(path) == {"A": "one two", "B": "x # y", "C": "plain", "D": "", "E": "a=b", "F": "q"}


def test_blank_variables_are_not_there(run):
    resolved = run(environ={"TARGET_DEPLOYMENT": "", "OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""})
    assert resolved.config.model.target.base_url is None
    assert resolved.provenance["model.target.name"].layer == "default"


def test_a_compatible_backend_takes_its_model_from_its_variable_unless_one_is_named(run):
    environ = {
        **ALL,
        "OPENAI_COMPATIBLE_MODEL": "served",
        "TARGET_BACKEND": "openai_compatible",
        "OPTIMIZER_BACKEND": "compat",
    }
    config = run(environ=environ, flags={"optimizer_model": "named"}).config
    assert config.model.target.name == "compatible:served"
    assert config.model.optimizer.name == "compatible:named"


@pytest.mark.parametrize(("name", "why"), [(name, why) for name, (why, _) in IGNORED_VARIABLES.items()])
def test_a_public_variable_that_does_nothing_here_is_said_once_with_the_reason(name, why, run, tmp_path):
    (tmp_path / ".env").write_text(f"{name}=7\n")
    warnings = run(environ={name: "9"}, flags={"target_model": "world"}).warnings
    assert [warning for warning in warnings if name in warning] == [
        f"The variable {name} has no effect here: {why}."
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, (_, values) in IGNORED_VARIABLES.items() for value in ("", *values)],
)
def test_a_variable_that_asks_for_what_happens_anyway_is_not_news(name, value, run):
    assert not [
        warning
        for warning in run(environ={name: value}, flags={"target_model": "world"}).warnings
        if name in warning
    ]
