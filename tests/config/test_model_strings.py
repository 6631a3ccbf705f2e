"""Model strings: what they mean, and that nothing else silently becomes the name of a model."""

from __future__ import annotations

import pytest

from skillopt.config.roles import parse_model_string
from skillopt.errors import ConfigError, SkillOptError

HOST = "http://127.0.0.1:11434/v1"
MEANINGS = {
    "openai:gpt-5.5": ("chat", "openai", "gpt-5.5", None),
    "azure:my-deployment": ("chat", "azure", "my-deployment", None),
    "anthropic:claude-sonnet-4-6": ("chat", "anthropic", "claude-sonnet-4-6", None),
    "compatible:name@http://host/v1": ("chat", "compatible", "name", "http://host/v1"),
    "compatible:Qwen/Qwen3.5-4B@https://host:8000/v1": (
        *("chat", "compatible", "Qwen/Qwen3.5-4B"),
        "https://host:8000/v1",
    ),
    f"compatible:qwen2.5:7b@{HOST}": ("chat", "compatible", "qwen2.5:7b", HOST),
    "compatible:/models/x@http://h/v1": ("chat", "compatible", "/models/x", "http://h/v1"),
    "compatible:a@b": ("chat", "compatible", "a@b", None),
    "compatible:qwen2.5:7b": ("chat", "compatible", "qwen2.5:7b", None),
    "world": ("chat", "world", "world", None),
    "world:noisy": ("chat", "world", "noisy", None),
    "qwen2.5:7b": ("chat", None, "qwen2.5:7b", None),
    "deepseek-r1:70b": ("chat", None, "deepseek-r1:70b", None),
    "phi4:14b": ("chat", None, "phi4:14b", None),
    "Qwen/Qwen3.5-4B": ("chat", None, "Qwen/Qwen3.5-4B", None),
    "meta-llama/Llama-3.1-8B": ("chat", None, "meta-llama/Llama-3.1-8B", None),
    "openai/gpt-oss:20b": ("chat", None, "openai/gpt-oss:20b", None),
    "gpt-5.5": ("chat", None, "gpt-5.5", None),
    "llama3.1:8b-instruct-q4": ("chat", None, "llama3.1:8b-instruct-q4", None),
    "mistral-small3.2": ("chat", None, "mistral-small3.2", None),
    "openai:python-coder": ("chat", "openai", "python-coder", None),
    "compatible:my model@http://127.0.0.1:1/v1": ("chat", "compatible", "my model", "http://127.0.0.1:1/v1"),
    "gpt-5.4-mini": ("chat", None, "gpt-5.4-mini", None),
    "/my models/x.gguf": ("chat", None, "/my models/x.gguf", None),
    "claude_code/anthropic:claude-sonnet-4-6": ("claude_code", "anthropic", "claude-sonnet-4-6", None),
    "claude_code/sonnet": ("claude_code", None, "sonnet", None),
    "chat/openai:gpt-5.5": ("chat", "openai", "gpt-5.5", None),
    # Agents of one's own
    **{
        text: (harness, harness, text, None)
        for text, harness in {
            "cmd: python3 agent.py --fast": "command",
            "cmd:./agent": "command",
            "http://127.0.0.1:9000/run": "service",
            "https://agent.example/run": "service",
            "agent.py:run": "function",
            "my agents/agent.py:Agent.run": "function",
            "function: package.module:run": "function",
        }.items()
    },
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_model_string_means(text):
    parts = parse_model_string(text, "target")
    assert (parts.harness, parts.provider, parts.name, parts.base_url) == MEANINGS[text]
    assert parts.is_own_agent is (parts.harness in ("command", "service", "function"))
    if parts.base_url is None:
        assert str(parts) == text
    if parts.is_own_agent:
        with pytest.raises(ConfigError, match="only a target"):
            parse_model_string(text, "optimizer")


@pytest.mark.parametrize(
    ("text", "said", "role"),
    [
        ("opnai:gpt-5.5", "Did you mean 'openai:gpt-5.5'?", "target"),
        ("antropic:x", "Did you mean 'anthropic:x'?", "target"),
        ("openai", "is a provider; write 'openai:MODEL'", "target"),
        ("openai:", "names no model", "target"),
        ("local", "is a provider; write 'local:MODEL'", "target"),
        ("claud-cli:sonnet", "Did you mean 'claude_cli:sonnet'?", "target"),
        ("claud_code/anthropic:x", "Did you mean 'claude_code'?", "target"),
        ("claude_code/anthropic:x", "only target and proposer have one", "optimizer"),
    ],
)
def test_a_slip_in_a_model_string_is_an_error_not_a_name(text, said, role):
    with pytest.raises(SkillOptError) as caught:
        parse_model_string(text, role)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("python3 agent.py", "./agent", "../agent", "/usr/bin/agent", "~/agent", "agent.py", "agent.js"),
        *("run.sh", "cmd", "cmd python3 x", "cmd/foo", "python:agent", "python3.11", "my agent", "gpt 5"),
        *("C:\\agent.exe", "http:/127.0.0.1/x", "ftp://x/y", "127.0.0.1:9000", "localhost:9000/run"),
        "host.example:80/run",
    ],
)
def test_what_looks_like_a_command_a_path_or_an_address_is_no_model(text):
    for role in ("target", "optimizer"):
        with pytest.raises(ConfigError, match="is no model's name") as caught:
            parse_model_string(text, role)  # type: ignore[arg-type]
        assert "cmd: PROGRAM" in str(caught.value)
