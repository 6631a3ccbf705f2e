"""Every flag of the public command lines is taken, does what its key does, or says that it does nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli._commands import Command
from skillopt.cli._flags import MEANT, spelled_out
from skillopt.config.keys import flat_names

AZURE = ("endpoint", "api_version", "api_key", "auth_mode", "ad_scope", "managed_identity_client_id")
QWEN = (
    "base_url",
    "api_key",
    "temperature",
    "timeout_seconds",
    "max_tokens",
    "enable_thinking",
    "thinking_mode",
)
CODEX = (
    "path",
    "sandbox",
    "profile",
    "reasoning_effort",
    "use_sdk",
    "network_access",
    "web_search",
    "approval_policy",
)
CLAUDE = ("path", "profile", "use_sdk", "effort", "max_thinking_tokens")
MINIMAX = ("region", "base_url", "api_key", "model", "temperature", "max_tokens", "enable_thinking")
ROLES = ("", "optimizer_", "target_")
MODELS = [
    *(
        "backend",
        "model_backend",
        "optimizer_model",
        "target_model",
        "optimizer_backend",
        "target_backend",
        "reasoning_effort",
    ),
    *(f"{role}azure_openai_{name}" for role in ROLES for name in AZURE),
    *("azure_endpoint", "azure_api_version", "azure_api_key"),
    *(f"codex_exec_{name}" for name in CODEX),
    *("codex_exec_full_auto", "codex_trace_to_optimizer"),
    *(f"claude_code_exec_{name}" for name in CLAUDE),
    *(
        "cursor_exec_path",
        "cursor_exec_sandbox",
        "copilot_exec_path",
        "copilot_exec_home",
        "copilot_exec_allow_all_tools",
    ),
    *("copilot_chat_optimizer_model", "copilot_chat_target_model", "copilot_chat_timeout"),
    *(f"minimax_{name}" for name in MINIMAX),
]
SPLITS = ["data_path", *(f"split_{name}" for name in ("mode", "ratio", "seed", "dir", "output_dir"))]
TRAIN = [
    *MODELS,
    *("rewrite_reasoning_effort", "rewrite_max_completion_tokens"),
    *(f"{role}qwen_chat_{name}" for role in ROLES for name in QWEN),
    *("num_epochs", "train_size", "steps_per_epoch", "batch_size", "accumulation", "seed"),
    *("minibatch_size", "merge_batch_size", "analyst_workers", "failure_only", "max_analyst_rounds"),
    *(
        "edit_budget",
        "min_edit_budget",
        "lr_scheduler",
        "lr_control_mode",
        "skill_update_mode",
        "use_slow_update",
        "slow_update_samples",
    ),
    *(
        "longitudinal_pair_policy",
        "use_meta_skill",
        "use_skill_aware_reflection",
        "skill_aware_appendix_source",
    ),
    *(
        "skill_aware_consolidate_threshold",
        "use_gate",
        "sel_env_num",
        "test_env_num",
        "eval_test",
        "env",
        "skill_init",
        "out_root",
    ),
    *SPLITS,
    *(
        "data_root",
        "max_turns",
        "max_steps",
        "max_api_workers",
        "workers",
        "limit",
        "mode",
        "shuffle_choices",
        "use_theorem",
        "use_sketch",
    ),
    *("image_detail", "judge_model", "judge_max_completion_tokens", "judge_retries"),
]
FORGOTTEN = [
    *("gate_metric", "gate_mixed_weight", "use_semantic_density", "semantic_density_weight", "leading_words"),
    *("slow_update_gate_with_selection", "meta_edit_budget", "exec_timeout", "max_completion_tokens"),
]
"""Keys that have no flag in the public command line."""
EVAL = [
    *MODELS,
    "out_root",
    *SPLITS,
    "data_root",
    "max_turns",
    "workers",
    "max_api_workers",
    "seed",
    "test_env_num",
    "mode",
    "env",
]
EVAL += [f"{role}qwen_chat_{name}" for role in ROLES for name in QWEN]
OPTIONS = {"--cfg_options": True, "--effort": True, "--prompt": True}
WORLD = ("--env", "world", "--target_model", "world", "--optimizer_model", "world")


def test_the_public_command_line_of_training_is_here_in_full() -> None:
    assert len({*TRAIN, "config", "cfg-options"}) >= 132


@pytest.mark.parametrize(("command", "names"), [("train", [*TRAIN, *FORGOTTEN]), ("eval", EVAL)])
def test_every_public_flag_is_taken(skillopt: Command, command: str, names: list[str]) -> None:
    """A flag that a command does not have is a usage error that names it, before anything else
    is looked at.
    """
    words = [word for name in names for word in (f"--{name}", "1")]
    ran = skillopt(
        command, *words, "--config", "nowhere.yaml", *(("--skill", "none") if command == "eval" else ())
    )
    assert ran.code == 2
    assert "No such option" not in ran.err
    assert "nowhere.yaml" in ran.err
    assert "No such option: --use_skecth" in skillopt(command, "--use_skecth", "1").err


def shown(skillopt: Command, *words: str) -> dict[str, Any]:
    ran = skillopt("config", "show", *words, "--json")
    assert ran.code == 0, ran.err
    data: dict[str, Any] = json.loads(ran.out)
    return {**data["config"], "warned": ran.err}


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("steps_per_epoch", "3"),
        ("max_analyst_rounds", "3"),
        ("judge_model", "m"),
        ("meta_edit_budget", "3"),
        ("codex_exec_full_auto", "true"),
    ],
)
def test_a_dead_flag_is_taken_with_one_warning(skillopt: Command, flag: str, value: str) -> None:
    assert shown(skillopt, *WORLD, f"--{flag}", value)["warned"].count("has no effect") == 1


@pytest.mark.parametrize(
    ("flag", "owner"), [("max_steps", "alfworld"), ("mode", "spreadsheetbench"), ("image_detail", "docvqa")]
)
def test_a_flag_of_another_benchmark_is_an_error_that_names_it(
    skillopt: Command, flag: str, owner: str
) -> None:
    ran = skillopt("train", *WORLD, f"--{flag}", "1")
    assert ran.code == 2
    assert f"--{flag}: is a key of {owner}, and env.name is world" in ran.err


def test_a_key_on_the_command_line_works_and_warns_and_is_not_shown(skillopt: Command) -> None:
    found = shown(
        skillopt,
        "--env",
        "world",
        "--target_model",
        "azure:m",
        "--azure_openai_endpoint",
        "http://az",
        "--azure_openai_api_key",
        "sk-on-argv-1",
    )
    assert found["model"]["target"]["api_key"] == "[set]"
    assert found["warned"].count("can be read by other users") == 1
    assert "sk-on-argv" not in json.dumps(found)


@pytest.mark.parametrize("backend", ["azure_openai", "openai_compatible", "anthropic", "world"])
def test_the_backend_flag_takes_every_backend(skillopt: Command, backend: str) -> None:
    found = shown(
        skillopt, "--env", "world", "--backend", backend, "--target_model", "m", "--optimizer_model", "m"
    )
    wanted = {"azure_openai": "azure", "openai_compatible": "compatible"}.get(backend, backend)
    assert found["model"]["target"]["name"].startswith(wanted)


def test_help_lists_the_usual_settings_and_says_how_to_give_the_others(
    skillopt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    said = skillopt("train", "--help-all").out
    assert "any other key is an option too, as --KEY VALUE" in said and "--batch_size " in said
    assert "judge_model" not in said and "qwen" not in said.replace("Qwen", "")


def test_every_flat_name_and_every_dotted_key_is_an_option_of_train(skillopt: Command) -> None:
    words = [word for name in (*flat_names(), "train.proof.rows") for word in (f"--{name}", "1")]
    words = [word for word in words if word.lstrip("-") not in MEANT]
    ran = skillopt("train", *words, "--config", "nowhere.yaml")
    assert (ran.code, "No such option" in ran.err, "nowhere.yaml" in ran.err) == (2, False, True)
    assert shown(skillopt, *WORLD, "--train.proof.rows", "3")["train"]["proof"]["rows"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("try", "--num_epochs", "3"), "No such option: --num_epochs"),
        (("train", "--train.sed", "3"), "--train.sed: unknown key. Did you mean 'train.seed'?"),
        (("train", "--exec_timeout"), "--exec_timeout takes a value"),
    ],
)
def test_an_option_that_a_command_does_not_have_is_an_error(
    skillopt: Command, words: tuple[str, ...], said: str
) -> None:
    ran = skillopt(*words)
    assert ran.code == 2 and said in ran.err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--epochs", "1"), "write --num_epochs N"),
        (("--out=x",), "write --out_root FOLDER"),
        (("--set", "train.seed=1"), "write --cfg-options A.B=C"),
        (("--resume",), "the same command goes on"),
    ],
)
def test_what_people_type_names_the_right_spelling(
    skillopt: Command, typed: tuple[str, ...], said: str
) -> None:
    ran = skillopt("train", *typed)
    assert ran.code == 2 and said in ran.err


@pytest.mark.parametrize(
    "typed",
    [("train.seed=7",), ("train.seed=7", "train.num_epochs=2"), ("--effort", "quick", "train.seed=7")],
)
def test_a_bare_setting_is_one(typed: tuple[str, ...]) -> None:
    spelled = spelled_out(typed, OPTIONS)
    settings = [word for word in typed if "=" in word]
    assert [word for word in spelled if "=" in word] == settings
    assert spelled.count("--cfg_options") == len(settings)
    assert spelled_out(["--prompt", "a.b=c"], OPTIONS) == ["--prompt", "a.b=c"], "that is the option's value"
