"""What is set for a provider or an agent program reaches the roles that are on it, and no other."""

from __future__ import annotations

import pytest

from config._spec_keys import AGENT, MODELS, OPTIONS, SPEC_KEYS
from skillopt.config.keys import declared, variables
from skillopt.run.models import known_price

PROVIDER_KEYS = declared().keys

KEYS = {
    "OPENAI_API_KEY": "sk-openai-1",
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "GEMINI_API_KEY": "gem-key-1",
    "MINIMAX_API_KEY": "mini-key-1",
}
NEEDED = {
    **KEYS,
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
    each = PROVIDER_KEYS[key]
    name = MODELS[each.owner]
    if part == "name":  # the key is for a role that names no model of its own
        return {f"{role}_backend": name.partition(":")[0] for role in ("optimizer", "target")}
    roles = ("target",) if name.startswith("cursor") else ("optimizer", "target")
    return {f"{role}_model": name for role in roles}


WAYS = [
    (key, how)
    for key, each in PROVIDER_KEYS.items()
    for how in (("file", "flag", "variable") if each.role is None else ("variable",))
    if each.words is None and "optimizer_cursor" not in key
]


@pytest.mark.parametrize(("key", "how"), WAYS)
def test_a_providers_key_reaches_the_roles_that_are_on_it(key, how, run, role, write, cwd):
    each = PROVIDER_KEYS[key]
    value = sample(each.fills)
    flags, environ = on(key, each.fills), dict(NEEDED)
    if how == "file":
        section, _, name = key.partition(".")
        write("c.yaml", f"{section}:\n  {name}: {str(value).lower() if isinstance(value, bool) else value}\n")
    elif how == "flag":
        flags[key.removeprefix("model.")] = str(value)
    else:
        environ[key.removeprefix("model.").upper()] = str(value)
    resolved = run("c.yaml" if how == "file" else None, flags=flags, environ=environ)
    plain = run(flags=on(key, each.fills), environ=NEEDED)
    wanted = str(cwd / value) if each.fills == "agent.home" else value
    for name in ("optimizer", "target"):
        if f"{name}_model" not in flags and f"{name}_backend" not in flags:
            continue
        is_meant = each.role in (None, name)
        found = arrived(role(resolved, name), each.fills)
        assert (found == wanted) is is_meant, name
        if not is_meant:
            assert found == arrived(role(plain, name), each.fills)


def test_a_providers_key_means_nothing_to_a_role_elsewhere(run, role):
    world = {"optimizer_model": "world", "target_model": "world"}
    every = {
        key.removeprefix("model."): str(sample(each.fills))
        for key, each in PROVIDER_KEYS.items()
        if each.words is None
    }
    for name in ("optimizer", "target"):
        assert role(run(flags={**world, **every}), name) == role(run(flags=world), name)


@pytest.mark.parametrize(
    ("key", "owner", "value"), [(key, owner, value) for key, (owner, value) in SPEC_KEYS.items()]
)
def test_a_roles_own_option_arrives(key, owner, value, run, role, cwd):
    name = key.split(".")[1]
    flags = {f"model.{name}": MODELS[owner], key: value}
    part = key.removeprefix(f"model.{name}.")
    wanted = str(cwd / value) if part in ("options.folder", "agent.home") else value
    assert arrived(role(run(flags=flags, environ=NEEDED), name), part) == wanted


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"target_model": "openai:m", "model.target.options.region": "cn_zh"},
            "is an option of minimax, and model.target is 'openai:m'",
        ),
        (
            {"target_model": "openai:m", "model.target.agent.path": "x"},
            "is a setting of an agent program, and model.target is 'openai:m'",
        ),
    ],
)
def test_an_option_of_another_provider_is_refused(flags, said, fails):
    assert said in fails(flags=flags, environ=NEEDED)


def test_an_option_nobody_set_is_not_there(run, role):
    for model in ("qwen:m", "minimax:m", "local:m", "openai:m", "claude_cli:m"):
        assert role(run(flags={"target_model": model}, environ=NEEDED)).options == {}
    assert role(run(flags={"target_model": "claude_code/sonnet"})).agent == {}


@pytest.mark.parametrize(
    ("environ", "mode"),
    [
        ({"AZURE_OPENAI_ENDPOINT": "http://az", "AZURE_OPENAI_API_KEY": "azure-key-1"}, None),
        ({"AZURE_OPENAI_ENDPOINT": "http://az"}, None),
        ({"AZURE_OPENAI_ENDPOINT": "http://az", "AZURE_OPENAI_AUTH_MODE": "aad"}, "managed_identity"),
        (
            {
                "AZURE_OPENAI_ENDPOINT": "http://az",
                "AZURE_OPENAI_AUTH_MODE": "compat",
                "AZURE_OPENAI_API_KEY": "k" * 8,
            },
            "openai_compatible",
        ),
        (
            {
                "AZURE_OPENAI_ENDPOINT": "http://az",
                "AZURE_OPENAI_AUTH_MODE": "key",
                "AZURE_OPENAI_API_KEY": "k" * 8,
            },
            "api_key",
        ),
    ],
)
def test_azure_logs_in_as_it_is_told(environ, mode, run, role):
    assert role(run(environ=environ, flags={"target_model": "azure:m"})).options.get("auth_mode") == mode


def test_an_unknown_azure_auth_mode_names_the_near_miss(fails):
    assert "Did you mean 'azure_cli'?" in fails(
        flags={"target_model": "azure:m", "azure_openai_auth_mode": "azure_clli"}
    )


@pytest.mark.parametrize("spelling", ["TARGET_AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_TARGET_ENDPOINT"])
def test_a_role_may_have_an_endpoint_of_its_own_in_both_orders(spelling, run):
    environ = {
        "AZURE_OPENAI_ENDPOINT": "http://both",
        spelling: "http://mine",
        "AZURE_OPENAI_API_KEY": "azure-key-1",
    }
    model = run(environ=environ, flags={"target_model": "azure:t", "optimizer_model": "azure:o"}).config.model
    assert (model.target.base_url, model.optimizer.base_url) == ("http://mine", "http://both")


def test_a_roles_key_beats_the_common_one_unless_that_stands_nearer(run, write):
    write(
        "c.yaml",
        "model:\n  target_qwen_chat_temperature: 0.1\n  qwen_chat_temperature: 0.2\n  target: qwen:m\n",
    )
    assert run("c.yaml", flags={"qwen_chat_temperature": "0.3"}).config.model.target.temperature == 0.1
    write("d.yaml", "model:\n  qwen_chat_temperature: 0.2\n  target: qwen:m\n")
    assert (
        run("d.yaml", environ={"TARGET_QWEN_CHAT_TEMPERATURE": "0.9"}).config.model.target.temperature == 0.2
    )


def test_a_roles_own_setting_beats_its_providers(run):
    flags = {"target_model": "qwen:m", "qwen_chat_temperature": "0.3", "model.target.temperature": 0.8}
    assert run(flags=flags).config.model.target.temperature == 0.8


@pytest.mark.parametrize("word", ["none", "off", "null", ""])
def test_a_temperature_can_be_switched_off(word, run):
    assert (
        run(
            environ={"QWEN_CHAT_TEMPERATURE": word}, flags={"target_model": "qwen:m"}
        ).config.model.target.temperature
        is None
    )


def test_a_wrong_value_of_a_provider_nobody_uses_is_still_said(fails, write):
    write("c.yaml", "model:\n  qwen_chat_temperature: hot\n")
    assert fails("c.yaml") == "model.qwen_chat_temperature (c.yaml:2): expected a number, not 'hot'"


def test_a_wrong_value_names_the_public_key_it_came_from(fails, write):
    write("c.yaml", "model:\n  target: qwen:m\n  qwen_chat_temperature: -1\n")
    assert fails("c.yaml") == "model.qwen_chat_temperature (c.yaml:3): expected at least 0.0, not -1"
    said = fails(environ={"QWEN_CHAT_TEMPERATURE": "hot"}, flags={"target_model": "qwen:m"})
    assert said == "QWEN_CHAT_TEMPERATURE: expected a number, not 'hot'"


def test_a_wrong_variable_of_a_provider_nobody_uses_stops_nobody(run):
    assert run(
        environ={"QWEN_CHAT_TEMPERATURE": "hot"}, flags={"target_model": "world", "optimizer_model": "world"}
    )


def test_of_two_variables_for_one_key_the_first_counts(run, role):
    environ = {"GOOGLE_API_KEY": "google-key-1", "GEMINI_API_KEY": "gemini-key-1"}
    assert role(run(environ=environ, flags={"target_model": "gemini:m"})).api_key == "gemini-key-1"
    del environ["GEMINI_API_KEY"]
    assert role(run(environ=environ, flags={"target_model": "gemini:m"})).api_key == "google-key-1"


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


def test_a_login_is_not_replaced_by_a_key_that_the_program_itself_would_not_use(run, role):
    assert role(run(environ=KEYS, flags={"target_model": "codex_cli:gpt-5.5"})).api_key is None


def test_a_call_with_that_key_is_charged_and_one_of_a_subscription_has_no_known_price(run, role):
    paid = {"flags": {"target_model": "claude_cli:claude-sonnet-4-6"}}
    assert known_price(role(run(environ=KEYS, **paid))) is not None
    assert known_price(role(run(environ={"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-1"}, **paid))) is None
    assert known_price(role(run(environ={}, **paid))) is None


def test_claude_codes_own_login_is_the_key_that_it_would_use_itself(run, role):
    resolved = run(environ=KEYS, flags={"target_model": "claude_cli:sonnet"})
    assert role(resolved).api_key == KEYS["ANTHROPIC_API_KEY"]
    assert KEYS["ANTHROPIC_API_KEY"] in resolved.secrets, "it is scrubbed from all that is written"
    token = {**KEYS, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-1"}
    assert role(run(environ=token, flags={"target_model": "claude_cli:sonnet"})).api_key == "sk-ant-oat-1"


@pytest.mark.parametrize(
    ("model", "variable"), [("claude_code/sonnet", "ANTHROPIC_API_KEY"), ("codex/gpt-5.5", "OPENAI_API_KEY")]
)
def test_a_harness_takes_its_vendors_key_where_it_has_no_token_of_its_own(model, variable, run, role):
    assert role(run(environ=KEYS, flags={"target_model": model})).api_key == KEYS[variable]
    own = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-1", "CODEX_API_KEY": "sk-codex-1"}
    assert role(run(environ={**KEYS, **own}, flags={"target_model": model})).api_key in own.values()


def test_a_dotenv_file_does_not_choose_the_programs_that_start_here(run, write, role):
    write(".env", "CODEX_EXEC_PATH=./evil\nCODEX_SANDBOX=danger-full-access\n")
    resolved = run(flags={"target_model": "codex/m"})
    assert role(resolved).agent == {}
    assert [warning.partition(" ")[0] for warning in resolved.warnings] == [
        "CODEX_EXEC_PATH",
        "CODEX_SANDBOX",
    ]


@pytest.mark.parametrize(
    "target", ["cmd: ./evil", "evil.py:answer", "http://127.0.0.1:9/answer", "local:evil.gguf", "evil.GGUF"]
)
def test_a_dotenv_file_names_no_agent_of_its_own_and_no_model_file(target, run, write):
    write(".env", f'TARGET_DEPLOYMENT="{target}"\n')
    resolved = run()
    assert resolved.provenance["model.target.name"].layer != ".env"
    assert resolved.warnings[0].startswith("TARGET_DEPLOYMENT in .env is not used")


def test_an_endpoint_of_dotenv_never_gets_the_persons_own_login(run, write):
    write(".env", "AZURE_OPENAI_ENDPOINT=https://evil.openai.azure.com\n")
    resolved = run(flags={"target_model": "azure:m"})
    assert resolved.config.model.target.base_url is None
    assert "AZURE_OPENAI_ENDPOINT in .env is not used" in resolved.warnings[0]


@pytest.mark.parametrize("name", ["codex_path", "codex_cli_bin", "codex_bin"])
def test_old_names_of_keys_are_read(name, run, role, write):
    write("flat.yaml", f"{name}: /opt/codex\nsandbox: read-only\ntarget_model: codex/m\n")
    write("tree.yaml", f"model:\n  {name}: /opt/codex\n  codex_sandbox: read-only\n  target: codex/m\n")
    for file in ("flat.yaml", "tree.yaml"):
        assert role(run(file)).agent == {"path": "/opt/codex", "sandbox": "read-only"}


def test_a_benchmarks_own_key_comes_before_an_old_name(run, role):
    for given in (
        {"flags": {"env": "toy", "sandbox": "loose"}},
        {"flags": {"env": "toy"}, "options": ["sandbox=loose"]},
    ):
        assert run(**given).config.env.settings.sandbox == "loose"
    assert role(run(flags={"target_model": "codex/m", "sandbox": "read-only"})).agent == {
        "sandbox": "read-only"
    }


def test_the_old_azure_names_are_the_same_keys(run, fails, write):
    write(
        "c.yaml",
        "azure_endpoint: http://az\nazure_api_key: old-key-1\nazure_api_version: '2024'\ntarget_model:"
        " azure:m\n",
    )
    target = run("c.yaml").config.model.target
    assert (target.base_url, target.options["api_version"]) == ("http://az", "2024")
    write("d.yaml", "azure_endpoint: http://one\nazure_openai_endpoint: http://two\n")
    assert "are the same key with different values" in fails("d.yaml")


def test_every_variable_leads_to_a_key():
    assert len(variables()) > 150
    assert {key for key in variables().values() if key.startswith("model.") and key.count(".") == 1} >= set(
        PROVIDER_KEYS
    )
