"""The settings of nights: the public keys are read and checked, and nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import ConfigError, UnknownName
from skillopt_sleep import NightSettings, find_settings, read_settings, roles_of
from skillopt_sleep.settings import DEAD, REFUSED

PUBLIC = {
    **{
        "claude_home": "~/.claude",
        "codex_home": "~/.codex",
        "pi_home": "~/.pi",
        "cursor_home": "~/.cursor",
        "vscode_workspace_storage": "",
    },
    **{
        "copilot_cli_session_store": "",
        "opencode_db": "",
        "transcript_source": "claude",
        "projects": "invoked",
        "invoked_project": "",
    },
    **{
        "lookback_hours": 72,
        "max_tasks_per_night": 40,
        "max_tokens_per_night": 400000,
        "holdout_fraction": 0.34,
        "val_fraction": 0.34,
    },
    **{
        "test_fraction": 0.0,
        "model": "",
        "optimizer_backend": "",
        "optimizer_model": "",
        "target_backend": "",
        "target_model": "",
    },
    **{
        "azure_endpoint": "",
        "gate_mode": "on",
        "codex_path": "",
        "pi_path": "",
        "cursor_path": "",
        "opencode_path": "",
    },
    **{
        "opencode_tool_replay": False,
        "edit_budget": 4,
        "preferences": "",
        "gate_metric": "mixed",
        "gate_mixed_weight": 0.5,
    },
    **{
        "gate_no_regression": False,
        "replay_mode": "mock",
        "dream_rollouts": 1,
        "dream_factor": 0,
        "recall_k": 0,
        "evolve_memory": True,
    },
    **{
        "evolve_skill": True,
        "llm_mine": True,
        "target_skill_path": "",
        "skill_roots": [],
        "target_task_filter": True,
        "progress": False,
    },
    **{
        "evidence_log": True,
        "evidence_max_chars": 4000,
        "multi_skill_fanout": None,
        "multi_skill_report": False,
        "auto_adopt": False,
    },
    **{
        "managed_skill_name": "skillopt-sleep-learned",
        "redact_secrets": True,
        "seed": 42,
        "state_dir": "",
        "max_sessions_per_night": 0,
    },
}
"""A file that holds the public defaults; the public default backend is simulated and no model of a night."""


def written(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(keys))
    return path


def test_a_file_with_every_public_key_loads_and_says_what_does_not_happen(tmp_path: Path) -> None:
    read = read_settings(written(tmp_path, **PUBLIC))
    assert read.settings.claude_home == Path("~/.claude").expanduser()
    assert read.settings.state_dir is None and read.settings.max_tokens_per_night == 400_000
    assert read.warnings == () and read.settings.llm_mine


def test_every_public_key_is_known() -> None:
    assert set(PUBLIC) <= {*NightSettings.model_fields, *DEAD, *REFUSED}


def test_an_unknown_key_is_an_error_that_names_the_near_miss(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"lookback_hour \(.*config.json:1\): unknown key. Did you mean 'lookback_hours'\?"
    ):
        read_settings(written(tmp_path, lookback_hour=3))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"auto_adopt": True}, "only by `skillopt sleep adopt`"),
        ({"redact_secrets": False}, "always redacted"),
        ({"dream_rollouts": 99}, r"dream_rollouts \(.*:1\): expected at most 10, not 99"),
        ({"w_tok": 0.3}, "lets a worse answer win by being short; set max_tokens_increase"),
        ({"multi_objective_reward": {"w_acc": 1}}, "set max_tokens_increase or max_latency_increase"),
        ({"edit_budget": "four"}, "expected a whole number, not 'four'"),
        ({"gate_mode": "of"}, "'of' is not one of on, off. Did you mean 'off'\\?"),
        ({"lookback_hours": -1}, "expected at least 0"),
        ({"val_fraction": 0.5, "test_fraction": 0.5}, "leave nothing to learn from"),
        ({"val_fraction": 0.5, "holdout_fraction": 0.3}, "two names of one share"),
        ({"managed_skill_name": "../../etc"}, "is no name of a skill"),
        ({"managed_skill_name": "my--skill"}, "with single dashes between"),
        ({"managed_skill_name": "a" * 65}, "is no name of a skill"),
        ({"target_skill_path": "~nobody-of-this-name/SKILL.md"}, "home folder of '~nobody-of-this-name'"),
        ({"lookback_hours": 1e12}, "expected at most 1000000"),
        ({"max_dollars_per_night": float("inf")}, "expected a number"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_settings(written(tmp_path, **keys))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(written(tmp_path, auto_adopt=True, sed=1, edit_budget=0))
    assert len(str(caught.value).split("\n")) == 3


def test_a_malformed_file_is_an_error_and_never_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model: [openai\n")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_settings(path)


def test_two_files_are_an_error(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="both hold settings"):
        find_settings(tmp_path)


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    read = read_settings(written(tmp_path, seed=1, edit_budget=2), {"seed": 7, "edit_budget": None})
    assert (read.settings.seed, read.settings.edit_budget) == (7, 2)


@pytest.mark.parametrize(
    ("keys", "target", "optimizer"),
    [
        ({"model": "openai:gpt-5.4-mini"}, "openai:gpt-5.4-mini", "openai:gpt-5.4-mini"),
        ({"backend": "claude"}, "claude-cli:sonnet", "claude-cli:sonnet"),
        ({"backend": "azure_openai", "model": "gpt-5.5"}, "azure:gpt-5.5", "azure:gpt-5.5"),
        ({"backend": "azure-responses", "model": "gpt-5.5"}, "azure:gpt-5.5", "azure:gpt-5.5"),
        ({"backend": "session"}, "handoff", "handoff"),
        (
            {"target_backend": "cursor-agent", "target_model": "auto", "optimizer_model": "openai:m"},
            "cursor/auto",
            "openai:m",
        ),
        (
            {"target_backend": "codex", "optimizer_backend": "anthropic", "optimizer_model": "m"},
            "codex-cli",
            "anthropic:m",
        ),
        (
            {"model": "openai:a", "target_model": "claude_code/anthropic:b"},
            "claude_code/anthropic:b",
            "openai:a",
        ),
    ],
)
def test_models_are_named_as_strings_or_in_the_public_words(
    keys: dict[str, str], target: str, optimizer: str
) -> None:
    roles = roles_of(NightSettings(**keys))  # type: ignore[arg-type]
    assert roles is not None and (roles.target, roles.optimizer) == (target, optimizer)


def test_no_model_is_none_half_a_pair_an_error_and_an_unknown_backend_never_a_default() -> None:
    assert roles_of(NightSettings()) is None
    with pytest.raises(ConfigError, match="its optimizer is not"):
        roles_of(NightSettings(target_model="openai:m"))
    with pytest.raises(UnknownName, match="Did you mean 'claude'"):
        roles_of(NightSettings(backend="claud"))


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        ({"backend": "mock"}, "skillopt sleep dry-run"),
        ({"backend": "mock"}, "run_experiment --persona researcher"),
        ({"backend": "opencode", "model": "x/y"}, "skillopt sleep run --target opencode/x/y --optimizer"),
        ({"backend": "cursor"}, "skillopt sleep run --target cursor/MODEL --optimizer"),
        ({"optimizer_backend": "cursor", "target_model": "openai:m"}, "--target cursor/MODEL --optimizer"),
        ({"backend": "pi"}, "skillopt sleep run --source pi --model PROVIDER:MODEL"),
    ],
)
def test_a_public_backend_that_is_none_here_names_the_command_that_does_it(
    keys: dict[str, str], command: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        roles_of(NightSettings(**keys))  # type: ignore[arg-type]
    assert command in str(caught.value)
