"""What is set for a provider or an agent program reaches the roles that are on it, and no other."""

from __future__ import annotations

import pytest

from config._spec_keys import AGENT, MODELS, OPTIONS, SPEC_KEYS
from skillopt.config.keys import declared, variables
from skillopt.run.models import known_price

PROVIDER_KEYS = {key: each for key, each in declared().keys.items() if each.words is None}
NEEDED = {
    "OPENAI_API_KEY": "sk-openai-1",
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "GEMINI_API_KEY": "gem-key-1",
    "MINIMAX_API_KEY": "mini-key-1",
    "AZURE_OPENAI_ENDPOINT": "http://az",
    "AZURE_OPENAI_API_KEY": "azure-key-1",
    "OPENAI_COMPATIBLE_BASE_URL": "http://there/v1",
    "OPENAI_COMPATIBLE_API_KEY": "compat-key-1",
    "OPENAI_COMPATIBLE_MODEL": "m",
}
"""What the providers need to be built at all."""
PARTS = {
    "name": "given-model",
    "base_url": "http://given/v1",
    "api_key": "given-key-1",
    "temperature": 0.4,
    "timeout": 77.0,
    "max_tokens": 20_000,
}


def sample(part: str):
    section, _, name = part.partition(".")
    return PARTS[part] if not name else (OPTIONS if section == "options" else AGENT)[name][1]


def arrived(spec, part: str):
    """The value where a provider or harness finds it."""
    section, _, name = part.partition(".")
    if section == "options":
        return spec.options.get(name)
    if section == "agent":
        return spec.agent.get(name, spec.options.get(name))
    return spec.max_tokens if part == "max_tokens" else getattr(spec, part)


def on(key: str, part: str) -> dict[str, str]:
    """Flags that put both roles, or the key's own, on the provider the key belongs to."""
    name = MODELS[PROVIDER_KEYS[key].owner]
    if part == "name":  # the key is for a role that names no model of its own
        return {f"{role}_backend": name.partition(":")[0] for role in ("optimizer", "target")}
    roles = ("target",) if name.startswith("cursor") else ("optimizer", "target")
    return {f"{role}_model": name for role in roles}


@pytest.mark.parametrize("owner", sorted({each.owner for each in PROVIDER_KEYS.values()}))
def test_a_providers_keys_reach_the_roles_that_are_on_it(owner, run, role, write, cwd):
    for key, each in PROVIDER_KEYS.items():
        if each.owner != owner or "optimizer_cursor" in key:
            continue
        name, value = key.removeprefix("model."), sample(each.fills)
        write("c.yaml", f"model:\n  {name}: {str(value).lower() if isinstance(value, bool) else value}\n")
        flags = on(key, each.fills)
        ways = {
            "file": {"config": "c.yaml", "flags": flags, "environ": NEEDED},
            "flag": {"flags": {**flags, name: str(value)}, "environ": NEEDED},
            "variable": {"flags": flags, "environ": {**NEEDED, name.upper(): str(value)}},
        }
        plain = run(flags=flags, environ=NEEDED)
        wanted = str(cwd / value) if each.fills == "agent.home" else value
        for how, given in ways.items():
            if each.role is not None and how != "variable":
                continue
            resolved = run(**given)
            for named in ("optimizer", "target"):
                if f"{named}_model" in flags or f"{named}_backend" in flags:
                    found = arrived(role(resolved, named), each.fills)
                    is_meant = each.role in (None, named)
                    assert (found == wanted) is is_meant, (key, how, named)
                    assert is_meant or found == arrived(role(plain, named), each.fills), (key, how, named)


def test_a_providers_key_means_nothing_to_a_role_elsewhere(run, role):
    world = {"optimizer_model": "world", "target_model": "world"}
    every = {key.removeprefix("model."): str(sample(each.fills)) for key, each in PROVIDER_KEYS.items()}
    for name in ("optimizer", "target"):
        assert role(run(flags={**world, **every}), name) == role(run(flags=world), name)


def test_a_roles_own_options_arrive(run, role, cwd):
    for key, (owner, value) in SPEC_KEYS.items():
        name = key.split(".")[1]
        part = key.removeprefix(f"model.{name}.")
        wanted = str(cwd / value) if part in ("options.folder", "agent.home") else value
        flags = {f"model.{name}": MODELS[owner], key: value}
        assert arrived(role(run(flags=flags, environ=NEEDED), name), part) == wanted, key


def test_an_option_nobody_set_is_not_there(run, role):
    for model in ("qwen:m", "minimax:m", "local:m", "openai:m", "claude_cli:m"):
        assert role(run(flags={"target_model": model}, environ=NEEDED)).options == {}
    assert role(run(flags={"target_model": "claude_code/sonnet"})).agent == {}


@pytest.mark.parametrize(
    ("variable", "model", "part", "value"),
    [
        ("CLAUDE_CLI_BIN", "claude_code/sonnet", "agent.path", "/opt/claude"),
        ("CODEX_CLI_BIN", "codex/m", "agent.path", "/opt/codex"),
        ("CODEX_PATH", "codex/m", "agent.path", "/opt/codex"),
        ("CODEX_SANDBOX_MODE", "codex/m", "agent.sandbox", "read-only"),
        ("CODEX_SANDBOX", "codex/m", "agent.sandbox", "read-only"),
        ("CODEX_PROFILE", "codex/m", "agent.profile", "p"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "claude_code/sonnet", "api_key", "sk-ant-oat-1"),
        ("CODEX_API_KEY", "codex/m", "api_key", "sk-codex-1"),
        ("COPILOT_GITHUB_TOKEN", "copilot/m", "api_key", "github-token-1"),
        ("CURSOR_API_KEY", "cursor/m", "api_key", "cursor-key-1"),
    ],
)
def test_variables_with_names_of_their_own(variable, model, part, value, run, role):
    resolved = run(environ={variable: value}, flags={"target_model": model})
    assert arrived(role(resolved), part) == value
    assert (value in resolved.secrets) is (part == "api_key")


def test_a_call_with_a_vendors_key_is_charged_and_one_of_a_subscription_has_no_known_price(run, role):
    paid = {"flags": {"target_model": "claude_cli:claude-sonnet-4-6"}}
    resolved = run(environ=NEEDED, **paid)
    assert known_price(role(resolved)) is not None
    assert NEEDED["ANTHROPIC_API_KEY"] in resolved.secrets, "it is scrubbed from all that is written"
    assert known_price(role(run(environ={"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-1"}, **paid))) is None
    assert known_price(role(run(environ={}, **paid))) is None


def test_every_variable_leads_to_a_key():
    assert len(variables()) > 150
    of_providers = {key for key in variables().values() if key.startswith("model.") and key.count(".") == 1}
    assert of_providers >= declared().keys.keys()
