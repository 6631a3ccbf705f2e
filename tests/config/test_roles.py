"""Model strings and what a role is built from."""

from __future__ import annotations

import pytest

from skillopt.config.roles import parse_model_string, resolve_role
from skillopt.errors import ConfigError, UnknownName


def parse(text, role="target"):
    return parse_model_string(text, role)


@pytest.mark.parametrize(
    ("text", "harness", "provider", "name", "url"),
    [
        ("openai:gpt-5.5", "chat", "openai", "gpt-5.5", None),
        ("azure:my-deployment", "chat", "azure", "my-deployment", None),
        ("anthropic:claude-sonnet-4-6", "chat", "anthropic", "claude-sonnet-4-6", None),
        ("compatible:name@http://host/v1", "chat", "compatible", "name", "http://host/v1"),
        (
            "compatible:Qwen/Qwen3.5-4B@https://host:8000/v1",
            "chat",
            "compatible",
            "Qwen/Qwen3.5-4B",
            "https://host:8000/v1",
        ),
        (
            "compatible:qwen2.5:7b@http://127.0.0.1:11434/v1",
            "chat",
            "compatible",
            "qwen2.5:7b",
            "http://127.0.0.1:11434/v1",
        ),
        ("compatible:a@b", "chat", "compatible", "a@b", None),
        ("world", "chat", "world", "world", None),
        ("world:noisy", "chat", "world", "noisy", None),
        ("qwen2.5:7b", "chat", None, "qwen2.5:7b", None),
        ("Qwen/Qwen3.5-4B", "chat", None, "Qwen/Qwen3.5-4B", None),
        ("openai/gpt-oss:20b", "chat", None, "openai/gpt-oss:20b", None),
        ("gpt-5.5", "chat", None, "gpt-5.5", None),
        ("claude_code/anthropic:claude-sonnet-4-6", "claude_code", "anthropic", "claude-sonnet-4-6", None),
        ("claude_code/sonnet", "claude_code", None, "sonnet", None),
        ("chat/openai:gpt-5.5", "chat", "openai", "gpt-5.5", None),
    ],
)
def test_a_model_string_means(text, harness, provider, name, url):
    parts = parse(text)
    assert (parts.harness, parts.provider, parts.name, parts.base_url) == (harness, provider, name, url)


@pytest.mark.parametrize(
    "text",
    [
        "openai:gpt-5.5",
        "world",
        "world:noisy",
        "claude_code/anthropic:x",
        "compatible:qwen2.5:7b",
        "qwen2.5:7b",
    ],
)
def test_a_model_string_without_endpoint_survives_the_way_back(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("opnai:gpt-5.5", "Did you mean 'openai:gpt-5.5'?"),
        ("antropic:x", "Did you mean 'anthropic:x'?"),
        ("openai", "is a provider; write 'openai:MODEL'"),
        ("openai:", "names no model"),
        ("local", "is a provider; write 'local:MODEL'"),
        ("claud-cli:sonnet", "Did you mean 'claude_cli:sonnet'?"),
    ],
)
def test_a_slip_in_a_model_string_is_an_error_not_a_name(text, said):
    with pytest.raises(ConfigError, match=r"model\.target") as caught:
        parse(text)
    assert said in str(caught.value)


def test_an_unknown_harness_names_the_near_miss():
    with pytest.raises(UnknownName, match="Did you mean 'claude_code'"):
        parse("claud_code/anthropic:x")


def test_an_optimizer_has_no_harness():
    with pytest.raises(ConfigError, match="only target and proposer have one"):
        parse("claude_code/anthropic:x", "optimizer")


@pytest.mark.parametrize(
    ("backend", "provider"),
    [
        ("azure", "azure"),
        ("azure-openai", "azure"),
        ("azure_openai", "azure"),
        ("openai", "openai"),
        ("openai_chat", "openai"),
        ("openai_compatible", "compatible"),
        ("openai_compatible_chat", "compatible"),
        ("openai-compatible", "compatible"),
        ("compat", "compatible"),
        ("anthropic", "anthropic"),
    ],
)
def test_a_bare_name_goes_to_the_provider_its_backend_means(backend, provider, run):
    assert (
        run(flags={"backend": backend, "target_model": "m", "optimizer_model": "m"}).config.model.target.name
        == f"{provider}:m"
    )
    assert (
        run(flags={"target_backend": backend, "target_model": "m"}).config.model.target.name
        == f"{provider}:m"
    )


def test_a_roles_backend_beats_the_common_one_and_openai_chat_is_open(run):
    flags = {
        "backend": "anthropic",
        "optimizer_backend": "azure",
        "target_backend": "openai_chat",
        "target_model": "m",
        "optimizer_model": "m",
    }
    config = run(flags=flags).config
    assert (config.model.optimizer.name, config.model.target.name) == ("azure:m", "anthropic:m")


def test_a_provider_in_the_string_beats_every_backend(run):
    assert run(flags={"backend": "azure", "target_model": "openai:m"}).config.model.target.name == "openai:m"


def test_a_backend_that_does_not_exist_is_an_error_with_the_near_miss(fails):
    assert "Did you mean 'azure'?" in fails(flags={"target_backend": "azzure"})


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("compatible:m@https://far.example/v1", "OPENAI_COMPATIBLE_API_KEY"),
        ("compatible:m", "OPENAI_COMPATIBLE_BASE_URL"),
        ("azure:m", "AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_a_missing_key_or_endpoint_names_the_variable_to_set(model, variable, run):
    config = run(flags={"target_model": model}).config
    with pytest.raises(ConfigError, match=variable) as caught:
        resolve_role(config, "target")
    assert str(caught.value).startswith("model.target:")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:9"])
def test_a_compatible_server_on_this_machine_needs_no_key(host, run):
    assert (
        resolve_role(run(flags={"target_model": f"compatible:m@http://{host}/v1"}).config, "target").api_key
        is None
    )


def test_a_far_compatible_server_without_a_key_is_said_so_on_purpose(run):
    config = run(
        flags={"target_model": "compatible:m@http://lan/v1"}, options=["model.target.api_key=none"]
    ).config
    assert resolve_role(config, "target").api_key is None


def test_a_role_is_built_from_its_own_settings(run):
    options = [
        *("temperature=0.5", "top_p=0.9", "seed=3", "max_tokens=100", "timeout=9"),
        *("price.input=1", "price.output=2", "reasoning_effort=high"),
    ]
    config = run(
        flags={
            "target_model": "compatible:m@http://127.0.0.1/v1",
            "optimizer_model": "compatible:o@http://127.0.0.1/v1",
            "workers": 200,
        },
        options=[
            *(f"model.target.{option}" for option in options),
            "model.reasoning_effort=low",
            "env.exec_timeout=33",
        ],
    ).config
    target, optimizer = resolve_role(config, "target"), resolve_role(config, "optimizer")
    assert target.sampling() == {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "reasoning_effort": "high",
    }
    assert (target.max_tokens, target.timeout, target.connections) == (100, 9, 200)
    assert (target.price.input, target.price.output, target.price.cached) == (1, 2, None)
    assert optimizer.sampling() == {"reasoning_effort": "low"}
    assert (optimizer.max_tokens, optimizer.timeout, optimizer.price, optimizer.harness) == (
        16384,
        33,
        None,
        "chat",
    )


def test_a_knob_left_unset_sends_nothing(run):
    assert (
        resolve_role(
            run(flags={"target_model": "compatible:m@http://127.0.0.1/v1"}).config, "target"
        ).sampling()
        == {}
    )


@pytest.mark.parametrize("key", ["${HOUSE_KEY}", "$HOUSE_KEY", "%HOUSE_KEY%", "{{ HOUSE_KEY }}"])
def test_a_key_that_only_names_a_variable_is_refused_and_not_sent(run, write, key):
    write("c.yaml", f"model:\n  target: {{name: 'openai:gpt-5.5', api_key: '{key}'}}\n")
    with pytest.raises(ConfigError, match=r"not filled in from the environment: .* set OPENAI_API_KEY"):
        resolve_role(run("c.yaml").config, "target")
