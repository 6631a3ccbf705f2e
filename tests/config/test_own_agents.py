"""A target that is no model: how it is written, and that nothing else silently becomes the name of a model."""

from __future__ import annotations

import pytest

from skillopt.config.roles import parse_model_string
from skillopt.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "harness"),
    [
        ("cmd: python3 agent.py --fast", "command"),
        ("cmd:./agent", "command"),
        ("http://127.0.0.1:9000/run", "service"),
        ("https://agent.example/run", "service"),
        ("agent.py:run", "function"),
        ("my agents/agent.py:Agent.run", "function"),
        ("function: package.module:run", "function"),
    ],
)
def test_an_agent_of_ones_own_keeps_its_words(text: str, harness: str) -> None:
    parts = parse_model_string(text, "target")
    assert (parts.harness, str(parts)) == (harness, text)
    assert str(parse_model_string(str(parts), "target")) == text
    with pytest.raises(ConfigError, match="only a target"):
        parse_model_string(text, "optimizer")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "python3 agent.py",
            "./agent",
            "../agent",
            "/usr/bin/agent",
            "~/agent",
            "agent.py",
            "agent.js",
            "run.sh",
        ),
        *(
            "cmd",
            "cmd python3 x",
            "cmd/foo",
            "python:agent",
            "python3.11",
            "my agent",
            "gpt 5",
            "C:\\agent.exe",
        ),
        *("http:/127.0.0.1/x", "ftp://x/y", "127.0.0.1:9000", "localhost:9000/run", "host.example:80/run"),
    ],
)
@pytest.mark.parametrize("role", ["target", "optimizer"])
def test_what_looks_like_a_command_a_path_or_an_address_is_no_model(text: str, role: str) -> None:
    with pytest.raises(ConfigError, match="is no model's name") as caught:
        parse_model_string(text, role)  # type: ignore[arg-type]
    assert "cmd: PROGRAM" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "gpt-5.4-mini",
            "qwen2.5:7b",
            "meta-llama/Llama-3.1-8B",
            "llama3.1:8b-instruct-q4",
            "mistral-small3.2",
        ),
        *(
            "openai:python-coder",
            "compatible:my model@http://127.0.0.1:1/v1",
            "compatible:/models/x@http://h/v1",
        ),
        *("claude_code/anthropic:claude-sonnet-4-6", "deepseek-r1:70b", "phi4:14b", "/my models/x.gguf"),
    ],
)
def test_names_of_models_stay_names_of_models(text: str) -> None:
    assert not parse_model_string(text, "target").is_own_agent
