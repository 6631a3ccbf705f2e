"""Faults of the public system's configuration that must not occur here; each test is named after one
(protocol 8.A).
"""

from __future__ import annotations

import pytest

from config._public_files import BASE
from skillopt.config.load import load
from skillopt.errors import SkillOptError
from skillopt.run import prepare
from skillopt.tasks.splits import canonical_split

AZURE = {"AZURE_OPENAI_ENDPOINT": "http://az", "AZURE_OPENAI_API_KEY": "azure-key-1"}


def test_a8_no_limit_is_not_turned_into_a_schedule(run):
    optimizer = run(flags={"lr_control_mode": "none"}).config.optimizer
    assert optimizer.lr_control_mode == "none"


def test_a8_the_autonomous_scheduler_is_not_a_limit_of_999(run):
    optimizer = run(flags={"lr_scheduler": "autonomous"}).config.optimizer
    assert (optimizer.lr_control_mode, optimizer.learning_rate) == ("autonomous", 4)


@pytest.mark.parametrize(
    "flags", [{"backend": "openai"}, {"target_backend": "openai"}, {"target_model": "openai:gpt-5.5"}]
)
def test_a13_openai_does_not_mean_codex(flags, run):
    model = run(flags=flags).config.model
    assert model.target.name == "openai:gpt-5.5"


@pytest.mark.parametrize("backend", ["openai_compatible", "qwen_chat", "minimax_chat"])
@pytest.mark.parametrize("name", ["optimizer", "target"])
def test_a13_replies_are_not_cut_at_8000_tokens_unasked(backend, name, run, role):
    key = {
        "MINIMAX_API_KEY": "mini-key-1",
        "OPENAI_COMPATIBLE_API_KEY": "compat-key-1",
        "OPENAI_COMPATIBLE_BASE_URL": "http://there/v1",
    }
    spec = role(run(flags={f"{name}_backend": backend, f"{name}_model": "m"}, environ=key), name)
    assert spec.max_tokens == 16384


def test_a13_a_cap_that_was_asked_for_holds_and_is_said(run, write, role):
    write("base.yaml", BASE)
    flags = {"optimizer_backend": "minimax", "target_backend": "openai", "target_model": "m"}
    keys = {"MINIMAX_API_KEY": "mini-key-1", "OPENAI_API_KEY": "open-key-1"}
    resolved = run("base.yaml", flags=flags, environ=keys)
    assert (role(resolved, "optimizer").max_tokens, role(resolved, "target").max_tokens) == (8000, 16384)
    assert any(
        "every reply of the optimizer is cut at 8000 tokens" in warning for warning in resolved.warnings
    )


def test_a13_of_two_caps_the_smaller_holds(run):
    flags = {"target_model": "qwen:m", "qwen_chat_max_tokens": "5000", "max_completion_tokens": "4000"}
    assert run(flags=flags).config.model.target.max_tokens == 4000
    assert run(flags={**flags, "max_completion_tokens": "9000"}).config.model.target.max_tokens == 5000


def test_a13_thinking_can_be_switched_on_over_the_shipped_base(run, write):
    write("base.yaml", BASE)
    write(
        "c.yaml",
        "_base_: base.yaml\nmodel:\n  target_backend: qwen_chat\n  qwen_chat_enable_thinking: true\n",
    )
    assert run("c.yaml").config.model.target.options.get("enable_thinking") is True


def test_a13_the_thinking_mode_of_the_environment_is_not_overwritten_by_a_blank(run, write):
    write("base.yaml", BASE)
    resolved = run(
        "base.yaml", environ={"QWEN_CHAT_THINKING_MODE": "enabled"}, flags={"target_model": "qwen:m"}
    )
    assert resolved.config.model.target.options.get("enable_thinking") is True
    assert resolved.provenance["model.target.options.enable_thinking"].where == "QWEN_CHAT_THINKING_MODE"


@pytest.mark.parametrize(
    ("mode", "switch", "found"),
    [
        ("", None, None),
        ("server_default", None, None),
        ("enabled", None, True),
        ("disabled", None, False),
        ("", "true", True),
        ("", "false", False),
        ("enabled", "true", True),
        ("disabled", "false", False),
        ("server_default", "false", None),
    ],
)
def test_a13_thinking_has_three_states(mode, switch, found, run):
    flags = {"target_model": "qwen:m", "qwen_chat_thinking_mode": mode, "qwen_chat_enable_thinking": switch}
    assert run(flags=flags).config.model.target.options.get("enable_thinking") is found


@pytest.mark.parametrize(
    ("mode", "switch"), [("enabled", "false"), ("disabled", "true"), ("server_default", "true")]
)
def test_a13_thinking_that_contradicts_itself_is_an_error_naming_both(mode, switch, fails, run):
    flags = {"target_model": "qwen:m", "qwen_chat_thinking_mode": mode, "qwen_chat_enable_thinking": switch}
    message = fails(flags=flags)
    assert "--qwen_chat_thinking_mode" in message
    assert "--qwen_chat_enable_thinking" in message
    nearer = {"target_model": "qwen:m", "qwen_chat_enable_thinking": switch}
    resolved = run(flags=nearer, environ={"QWEN_CHAT_THINKING_MODE": mode})
    assert resolved.config.model.target.options.get("enable_thinking") is (switch == "true")


def test_a13_an_unknown_thinking_mode_names_the_near_miss(fails):
    assert "enabled" in fails(flags={"target_model": "qwen:m", "qwen_chat_thinking_mode": "enable"})
    assert "Did you mean 'enabled'?" in fails(
        flags={"target_model": "qwen:m"}, environ={"QWEN_CHAT_THINKING_MODE": "enabld"}
    )


def test_a13_minimax_does_not_give_the_optimizer_the_targets_model_or_lose_its_timeout(run, role):
    flags = {
        "optimizer_model": "minimax:a",
        "target_model": "minimax:b",
        "minimax_timeout_seconds": "9",
        "exec_timeout": "50",
    }
    resolved = run(flags=flags, environ={"MINIMAX_API_KEY": "mini-key-1"})
    optimizer, target = role(resolved, "optimizer"), role(resolved, "target")
    assert (optimizer.name, target.name, optimizer.timeout, target.timeout) == ("a", "b", 9, 9)


@pytest.mark.parametrize("name", ["valid_unsen", "dev", ""])
def test_a14_a_typo_in_a_split_does_not_evaluate_val(name):
    with pytest.raises(SkillOptError, match="No split named"):
        canonical_split(name)


def test_a14_a_missing_skill_file_is_not_a_blank_skill(tmp_path):
    flags = {"env": "world", "target_model": "world", "optimizer_model": "world", "skill_init": "gone.md"}
    with pytest.raises(SkillOptError, match=r"gone\.md"):
        prepare(load(None, flags=flags, options=[], environ={}, cwd=tmp_path))


def test_a14_a_split_seed_of_zero_is_a_seed(tmp_path):
    flags = {"env": "searchqa", "split_seed": "0"}
    assert load(None, flags=flags, options=[], environ={}, cwd=tmp_path).config.env.settings.split_seed == 0


def test_a15_an_unknown_key_is_not_dropped_in_silence(fails, write):
    write("c.yaml", "gradient:\n  minibatchsize: 4\n")
    assert "Did you mean 'gradient.minibatch_size'?" in fails("c.yaml")


def test_a16_the_defaults_are_the_papers(run):
    config = run().config
    assert (config.train.num_epochs, config.train.batch_size) == (4, 40)
    assert (config.gradient.minibatch_size, config.gradient.merge_batch_size) == (8, 8)
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.min_learning_rate, optimizer.lr_scheduler) == (4, 2, "cosine")
    assert (optimizer.lr_control_mode, optimizer.skill_update_mode) == ("fixed", "patch")
    assert (
        optimizer.use_slow_update,
        optimizer.slow_update_gate_with_selection,
        optimizer.slow_update_samples,
    ) == (True, True, 20)
    assert (optimizer.use_meta_skill, config.evaluation.use_gate) == (True, True)
    assert (config.train.strategy, config.gate.policy) == ("paper", "strict")


def test_s1_no_key_of_any_provider_is_shown(run):
    flags = {
        "target_model": "qwen:m",
        "qwen_chat_api_key": "qwen-secret-1",
        "minimax_api_key": "mini-secret-1",
    }
    resolved = run(
        flags={**flags, "optimizer_azure_openai_api_key": "azure-secret-1"},
        environ={"CLAUDE_CODE_OAUTH_TOKEN": "oauth-secret-1"},
    )
    assert set(resolved.secrets) == {"qwen-secret-1", "mini-secret-1", "azure-secret-1", "oauth-secret-1"}
    assert "secret-1" not in repr(resolved.config) + str(resolved.warnings)


def test_s2_reading_a_configuration_writes_no_variable(run, monkeypatch):
    import os

    before = dict(os.environ)
    run(
        environ=AZURE,
        flags={"target_model": "azure:m", "qwen_chat_api_key": "qwen-secret-1", "backend": "azure"},
    )
    assert dict(os.environ) == before
