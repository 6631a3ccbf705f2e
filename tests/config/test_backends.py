"""Public backend names: whom they mean, which roles they fill, and the model of a role that names none."""

from __future__ import annotations

import pytest

from skillopt.config.keys import declared
from skillopt.config.record import run_identity
from skillopt.errors import ConfigError

OPENAI = "openai:gpt-5.5"


def models(resolved):
    return resolved.config.model.optimizer.name, resolved.config.model.target.name


@pytest.mark.parametrize(
    ("label", "optimizer", "target"),
    [
        *((name, "azure:gpt-5.5", "azure:gpt-5.5") for name in ("azure_openai", "azure", "azure-openai")),
        *(
            (name, "claude_cli:claude-sonnet-4-6", "claude_cli:claude-sonnet-4-6")
            for name in ("claude_chat", "claude", "claude-cli")
        ),
        *(
            (name, "copilot_cli", "copilot_cli")
            for name in ("copilot_chat", "copilot", "copilot_cli", "github_copilot")
        ),
        *((name, "codex_cli:gpt-5.5", "codex/codex_cli:gpt-5.5") for name in ("codex", "codex_exec")),
        *((name, OPENAI, "qwen:Qwen/Qwen3.5-4B") for name in ("qwen", "qwen_chat")),
        *((name, OPENAI, "minimax:MiniMax-M3") for name in ("minimax", "minimax_chat")),
        ("claude_code_exec", OPENAI, "claude_code/claude_cli:claude-sonnet-4-6"),
        *(
            (name, OPENAI, "cursor/cursor_cli:composer-2.5")
            for name in ("cursor", "cursor_agent", "cursor_exec")
        ),
        ("copilot_exec", OPENAI, "copilot/copilot_cli"),
        ("openai_chat", OPENAI, OPENAI),
        ("openai", OPENAI, OPENAI),
        ("anthropic", "anthropic:claude-sonnet-4-6", "anthropic:claude-sonnet-4-6"),
        ("opencode", OPENAI, "opencode/opencode_cli"),
        ("world", "world", "world"),
        ("handoff", "handoff", "handoff"),
    ],
)
def test_a_label_fills_the_roles_it_is_for_with_its_own_default_models(label, optimizer, target, run, write):
    assert models(run(flags={"backend": label})) == (optimizer, target)
    # A public file says the default name aloud, and openai_chat for both roles.
    write(
        "c.yaml",
        "model: {optimizer: gpt-5.5, target: gpt-5.4, optimizer_backend: openai_chat, target_backend:"
        " openai_chat}\n",
    )
    resolved = run("c.yaml", flags={"backend": label})
    assert models(resolved) == (optimizer, target.replace("gpt-5.5", "gpt-5.4"))
    replaced = [
        warning for warning in resolved.warnings if "is the public default and no model of" in warning
    ]
    assert len(replaced) == sum("gpt-5" not in name for name in (optimizer, target))


@pytest.mark.parametrize(
    "backend", ["openai_compatible", "openai_compatible_chat", "openai-compatible", "compat"]
)
def test_a_compatible_backend_fills_both_roles_and_takes_its_model_from_the_file(backend, run, write):
    write("c.yaml", "model: {optimizer: gpt-5.5, target: mine}\n")
    assert models(run("c.yaml", flags={"backend": backend})) == ("compatible:gpt-5.5", "compatible:mine")


@pytest.mark.parametrize("provider", ["compatible", "gemini", "local"])
def test_a_provider_without_a_default_needs_a_name_when_the_role_is_built(provider, run, role):
    resolved = run(flags={"backend": provider})  # `eval` never builds an optimizer, so it may be without one
    for name in ("optimizer", "target"):
        with pytest.raises(ConfigError, match=rf"model\.{name}: name a model of {provider}"):
            role(resolved, name)


def test_a_default_name_on_the_command_line_is_meant(run):
    for given in (
        {"flags": {"target_backend": "qwen_chat", "target_model": "gpt-5.5"}},
        {"options": ["model.target=gpt-5.5", "target_backend=qwen"]},
    ):
        resolved = run(**given)
        assert (resolved.config.model.target.name, resolved.warnings) == ("qwen:gpt-5.5", ())


def test_a_default_name_in_a_file_that_gives_way_is_said(run, write):
    write("c.yaml", "model:\n  target: gpt-5.5\n  target_backend: qwen_chat\n")
    resolved = run("c.yaml")
    assert resolved.warnings[0].startswith(
        "model.target (c.yaml:2): 'gpt-5.5' is the public default and no model of qwen"
    )
    assert str(resolved.provenance["model.target.name"]) == "default of qwen"


def test_a_providers_own_model_key_names_the_roles_that_name_none(run):
    flags = {
        "backend": "minimax",
        "optimizer_backend": "minimax",
        "minimax_model": "MiniMax-M2",
        "target_model": "MiniMax-M9",
    }
    assert models(run(flags=flags)) == ("minimax:MiniMax-M2", "minimax:MiniMax-M9")
    flags = {"backend": "copilot", "copilot_chat_optimizer_model": "o", "copilot_chat_target_model": "t"}
    assert models(run(flags=flags)) == ("copilot_cli:o", "copilot_cli:t")
    environ = {"QWEN_CHAT_MODEL": "both", "TARGET_QWEN_CHAT_MODEL": "mine"}
    assert models(run(environ=environ, flags={"optimizer_backend": "qwen", "target_backend": "qwen"})) == (
        "qwen:both",
        "qwen:mine",
    )


@pytest.mark.parametrize(
    ("backend", "hint"),
    [
        ("claude_code_exec", "'claude_chat'"),
        ("copilot_exec", "'copilot_chat'"),
        ("cursor_exec", "only the target"),
    ],
)
def test_an_agent_that_works_on_tasks_is_no_optimizer(backend, hint, fails):
    message = fails(flags={"optimizer_backend": backend})
    assert message.startswith(f"model.optimizer_backend: '{backend}' is an agent that works on tasks")
    assert hint in message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("claude-cli:sonnet", "claude_cli:sonnet"),
        ("claude_code/sonnet", "claude_code/claude_cli:sonnet"),
        ("claude-code/claude-cli:sonnet", "claude_code/claude_cli:sonnet"),
        ("codex/gpt-5.5", "codex/codex_cli:gpt-5.5"),
        ("cursor/composer-2.5", "cursor/cursor_cli:composer-2.5"),
        ("opencode/openai:gpt-5.5", "opencode/openai:gpt-5.5"),
        ("qwen2.5:7b", "openai:qwen2.5:7b"),
        ("local:smollm2", "local:smollm2"),
    ],
)
def test_a_target_string_becomes_its_full_name(text, name, run):
    assert run(flags={"target_model": text}).config.model.target.name == name


def test_a_program_without_a_model_chooses_itself(run, role):
    assert role(run(flags={"target_backend": "copilot_exec"})).name == ""


@pytest.mark.parametrize("text", ["cursor_cli:x", "chat/opencode_cli:x"])
def test_a_login_without_its_harness_is_refused(text, fails):
    assert "which only a target can have" in fails(flags={"target_model": text})
    assert "is the login of the harness" in fails(flags={"optimizer_model": text.removeprefix("chat/")})


def test_a_model_file_follows_the_path_rule_and_is_identified_by_its_name(run, write, cwd):
    write("conf/c.yaml", "model: {target: 'local:m/x.gguf'}\n")
    write("conf/m/x.gguf", "")
    config = run("conf/c.yaml").config
    assert config.model.target.name == f"local:{cwd}/conf/m/x.gguf"
    assert run_identity(config)["model"]["target"]["name"] == "local:x.gguf"
    assert run(flags={"target_model": "local:y.gguf"}).config.model.target.name == f"local:{cwd}/y.gguf"


def test_every_public_backend_name_is_known():
    public = (
        "anthropic azure azure_openai claude claude_chat claude_code_exec codex codex_exec compat compatible"
        " copilot copilot_chat copilot_cli copilot_exec cursor cursor_agent cursor_exec github_copilot minimax"
        " minimax_chat openai openai_chat openai_compatible openai_compatible_chat qwen qwen_chat"
    )
    assert set(public.split()) <= declared().backends.keys()
