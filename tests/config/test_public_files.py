"""A person's public configuration files load as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from config._public_files import FILES
from skillopt.config.load import Resolved, load
from skillopt.config.record import render
from skillopt.errors import SkillOptError

AZURE = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com", "AZURE_OPENAI_API_KEY": "azure-key-1"}


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """The public files, in a folder of their own as in a clone."""
    for name, text in FILES.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def read(name: str, folder: Path, **flags: object) -> Resolved:
    return load(f"mine/{name}", flags=flags, options=[], environ=AZURE, cwd=folder)


@pytest.mark.parametrize("name", FILES)
def test_a_public_file_loads_and_every_value_it_holds_is_used(name: str, public: Path) -> None:
    resolved = read(name, public)
    assert list(resolved.warnings) == []
    in_tools = "tool_loop/" if name.startswith(("alfworld", "officeqa")) else ""
    assert (resolved.config.model.target.name, resolved.config.model.optimizer.name) == (
        f"{in_tools}azure:gpt-5.5",
        "azure:gpt-5.5",
    )
    assert resolved.config.optimizer.slow_update_gate_with_selection is False
    shown = {key: value for key, value, _source in render(resolved)}
    for key, value in (yaml.safe_load(FILES[name]).get("env") or {}).items():
        if (
            key in ("max_turns", "max_completion_tokens", "split_ratio")
            or value == ""
            or f"env.{key}" not in shown
        ):
            continue
        found = shown[f"env.{key}"]
        assert str(found).endswith(str(value)) if isinstance(value, str) else found == value, key


def test_a_key_of_one_benchmark_in_anothers_file_is_refused(public: Path) -> None:
    with pytest.raises(SkillOptError, match=r"is a key of alfworld, and env\.name is officeqa"):
        read("officeqa/default.yaml", public, max_steps=3)
    with pytest.raises(SkillOptError, match=r"unknown key\. Did you mean 'max_steps'"):
        read("alfworld/default.yaml", public, max_stpes=3)


def test_the_soft_gate_is_the_base_with_one_change(public: Path) -> None:
    assert read("features/soft_gate.yaml", public).config.evaluation.gate_metric == "soft"
    assert (
        load("features/soft_gate", flags={}, options=[], environ={}, cwd=public).config.evaluation.gate_metric
        == "soft"
    )


def test_a_public_command_line_goes_with_a_public_file(public: Path) -> None:
    flags = {
        "split_dir": "data",
        "azure_openai_endpoint": "https://other.openai.azure.com",
        "optimizer_model": "o",
        "target_model": "t",
    }
    model = read("searchqa/default.yaml", public, **flags).config.model
    assert (model.optimizer.name, model.target.name) == ("azure:o", "azure:t")
    assert model.target.base_url == "https://other.openai.azure.com"


@pytest.mark.parametrize(
    "backend", ["claude_chat", "openai_compatible", "minimax_chat", "qwen_chat", "cursor_exec", "codex"]
)
def test_a_backend_on_the_command_line_is_not_lost_to_the_base_file(backend: str, public: Path) -> None:
    """The base holds `openai_chat` for both roles, and a name that is only OpenAI's."""
    resolved = load(
        "mine/_base_/default.yaml",
        flags={"backend": backend},
        options=[],
        environ=AZURE,
        cwd=public,
    )
    assert not resolved.config.model.target.name.startswith("azure:")
