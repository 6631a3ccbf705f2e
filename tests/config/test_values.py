"""What is given, and what comes of it: which layer wins, how text is read, whom a name or a key means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config._public_files import BASE
from config._rows import row, values, write_all
from skillopt.config.fields import Leaf
from skillopt.config.keys import FLAT_NAMES, IGNORED_VARIABLES, VALUE_ALIASES, declared
from skillopt.config.layers import LAYERS
from skillopt.config.load import load
from skillopt.config.schema import Config
from skillopt.config.sections import parse_budget
from skillopt.errors import SkillOptError
from skillopt.run import prepare
from skillopt.tasks.splits import canonical_split

TARGET, OPTIMIZER = "model.target.name", "model.optimizer.name"
OPENAI = {"OPENAI_API_KEY": "sk-openai-key"}
AZURE = {"AZURE_OPENAI_ENDPOINT": "http://az/v1", "AZURE_OPENAI_API_KEY": "azure-key-1"}
COMPATIBLE = {
    "OPENAI_COMPATIBLE_API_KEY": "compat-key-1",
    "OPENAI_COMPATIBLE_BASE_URL": "http://compatible/v1",
}
ALL = {
    **OPENAI,
    **COMPATIBLE,
    "OPENAI_BASE_URL": "http://openai/v1",
    "ANTHROPIC_API_KEY": "sk-ant-key",
    "ANTHROPIC_BASE_URL": "http://anthropic",
}
KEYS = {
    **OPENAI,
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "GEMINI_API_KEY": "gem-key-1",
    "MINIMAX_API_KEY": "mini-key-1",
}
HERE = "compatible:m@http://127.0.0.1/v1"
LOWER = "optimizer:\n  min_learning_rate: 3\n"
BASED = {"base.yaml": BASE}
TOKEN = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat-1"}


def check(files, given, expected, run, write, cwd):
    write_all(write, files)
    resolved = run(**given)
    wanted = {key: value for key, value in expected.items() if key != "warnings"}
    assert values(resolved, wanted, cwd) == wanted
    if "warnings" in expected:
        assert len(resolved.warnings) == len(expected["warnings"])
        for warning, part in zip(resolved.warnings, expected["warnings"], strict=True):
            assert part in warning


STRONGEST = [
    row(
        "an option is read by the type of its key",
        {
            **{"train.seed": 3, "evaluation.gate_mixed_weight": 0.25, "evaluation.use_gate": False},
            **{"evaluation.gate_metric": "soft", "model.target.temperature": 0.1, "train.batch_size": 9},
            **{"model.target.base_url": "http://h/v1?a=b", OPTIMIZER: "openai:123"},
        },
        options=[
            *("train.seed=3", "evaluation.gate_mixed_weight=0.25", "evaluation.use_gate=no", "batch_size=9"),
            *("evaluation.gate_metric=soft", "model.target.temperature=1e-1", "model.optimizer=123"),
            "model.target.base_url=http://h/v1?a=b",
        ],
    ),
    row("null is unset", {"evaluation.gate_metric": None}, options=["evaluation.gate_metric=null"]),
    row("a later option wins", {"train.seed": 2}, options=["train.seed=1", "train.seed=2"]),
    row(
        "flags take typed values, text and paths; None is no flag",
        {
            **{"train.batch_size": 5, "evaluation.use_gate": False, "env.labels": ["a", "b"]},
            **{"env.split_dir": "CWD/data", "train.num_epochs": 4, "source env.name": "flag --env"},
        },
        flags={
            **{"env": "toy", "batch_size": "5", "use_gate": "false", "num_epochs": None},
            **{"split_dir": Path("data"), "labels": "[a, b]"},
        },
    ),
    row(
        "a benchmark's defaults stand below everything else",
        {"evaluation.repeats": 3, "env.workers": 2, "source evaluation.repeats": "default of toy"},
        flags={"env": "toy", "workers": 2},
    ),
    row(
        "a blank of a public file leaves the environment alone",
        {
            "model.target.base_url": "http://az/v1",
            "source model.target.base_url": "environment AZURE_OPENAI_ENDPOINT",
            "model.reasoning_effort": None,
        },
        yaml="model:\n  azure_openai_endpoint: ''\n  reasoning_effort: ''\n",
        environ=AZURE,
    ),
    row(
        "blank variables are not there",
        {"model.target.base_url": None, f"source {TARGET}": "default"},
        environ={"TARGET_DEPLOYMENT": "", "OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""},
    ),
    row("a .env can be left alone", {TARGET: "openai:gpt-5.5"}, files={".env": "TARGET_DEPLOYMENT=x\n"}, dotenv=False),
    row(
        "a lower limit takes the end of its schedule along",
        {"optimizer.learning_rate": 1, "optimizer.min_learning_rate": 1},
        yaml=LOWER,
        flags={"edit_budget": 1},
    ),
    row("the target's cap by its public name", {"target:max_tokens": 50, "optimizer:max_tokens": 16384},
        yaml="env:\n  max_completion_tokens: 50\n", environ=OPENAI),
    row("a flag beats the other name", {"target:max_tokens": 70},
        yaml="env:\n  max_completion_tokens: 50\n", flags={"model.target.max_tokens": 70}, environ=OPENAI),
    row("a budget as text is the whole budget", {"budget.usd": 3, "budget.tokens": None},
        yaml="budget: {tokens: 5, usd: 1}\n", flags={"budget": "$3"}),
    row("a part of a budget is not", {"budget.usd": 2, "budget.tokens": 5},
        yaml="budget: {tokens: 5, usd: 1}\n", options=["budget.usd=2"]),
    row("a budget of a file may be text", {"budget.calls": 500}, yaml="budget: 500 calls\n"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), STRONGEST)
def test_the_strongest_layer_wins(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


TEXTS = [
    row("numbers in quotes stay text where text is wanted", {TARGET: "openai:4", "tracking.project": "7"},
        yaml="model: {target: 'openai:4', azure_openai_api_version: '2024'}\ntracking: {project: '7'}\n"),
    row("and are numbers elsewhere",
        {"model.target.options": {"enable_thinking": True}, "model.target.temperature": 0.5},
        yaml="model: {target: 'qwen:m', qwen_chat_enable_thinking: 'true', qwen_chat_temperature: '0.5'}\n"),
    row("also as an option", {"model.target.options": {"n_ctx": 2048}},
        yaml="model: {target: {name: 'local:m', options: {n_ctx: '2048'}}}\n"),
    *(
        row(f"{word} is true", {"model.target.options": {"enable_thinking": True}},
            environ={"QWEN_CHAT_ENABLE_THINKING": word}, flags={"target_model": "qwen:m"})
        for word in ("true", "True", "yes", "on", "1")
    ),
    *(
        row(f"a temperature is switched off by {word!r}", {"model.target.temperature": None},
            environ={"QWEN_CHAT_TEMPERATURE": word}, flags={"target_model": "qwen:m"})
        for word in ("none", "off", "null", "")
    ),
    row("the autonomous scheduler is autonomous control",
        {"optimizer.lr_control_mode": "autonomous", "optimizer.lr_scheduler": "cosine", "optimizer.learning_rate": 4},
        files={"base.yaml": "optimizer: {lr_scheduler: cosine, lr_control_mode: fixed}\n"},
        yaml="_base_: base.yaml\noptimizer: {lr_scheduler: autonomous}\n"),
    *(
        row(f"{mode} has no limit, which is said",
            {
                "optimizer.lr_control_mode": "none",
                "source optimizer.lr_control_mode": "default under full_rewrite_minibatch",
                "warnings": ("no number of edits",),
            },
            flags={"skill_update_mode": mode, "lr_control_mode": "fixed"})
        for mode in ("full_rewrite_minibatch", "full_rewrite")
    ),
    row("nor is it said where none was chosen", {"warnings": ()},
        flags={"skill_update_mode": "full_rewrite", "lr_control_mode": "none"}),
    row("no limit is not turned into a schedule", {"optimizer.lr_control_mode": "none"},
        flags={"lr_control_mode": "none"}),
    row("a price of which every part is unset is none", {"model.target.price": None}, options=["model.target.price.cached=null"]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), TEXTS)
def test_a_value_is_read_by_the_type_of_its_key(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


MODELS = [
    *(
        row(f"{backend} for a bare name, common and of the role", {OPTIMIZER: f"{provider}:o", TARGET: f"{provider}:m"},
            flags={f"{role}backend": backend, "target_backend": backend, "target_model": "m", "optimizer_model": "o"})
        for role, backend, provider in [
            *(("", name, "azure") for name in ("azure", "azure-openai", "azure_openai")),
            *(("optimizer_", name, "openai") for name in ("openai", "openai_chat")),
            *(("", name, "compatible") for name in ("openai_compatible", "openai_compatible_chat", "compat")),
            ("optimizer_", "openai-compatible", "compatible"),
            ("", "anthropic", "anthropic"),
        ]
    ),
    row("a role's backend beats the common one, and openai_chat is open", {OPTIMIZER: "azure:m", TARGET: "anthropic:m"},
        flags={
            **{"backend": "anthropic", "optimizer_backend": "azure", "target_backend": "openai_chat"},
            **{"target_model": "m", "optimizer_model": "m"},
        }),
    row("a provider in the string beats every backend", {TARGET: "openai:m"},
        flags={"backend": "azure", "target_model": "openai:m"}),
    *(
        row(f"a default name on the command line is meant ({given})", {TARGET: "qwen:gpt-5.5", "warnings": ()}, **given)
        for given in (
            {"flags": {"target_backend": "qwen_chat", "target_model": "gpt-5.5"}},
            {"options": ["model.target=gpt-5.5", "target_backend=qwen"]},
        )
    ),
    row("a default name in a file gives way, which is said",
        {
            "warnings": ("model.target (c.yaml:2): 'gpt-5.5' is the public default and no model of qwen",),
            f"source {TARGET}": "default of qwen",
        },
        yaml="model:\n  target: gpt-5.5\n  target_backend: qwen_chat\n"),
    *(
        row(f"{backend} takes its model from the file", {OPTIMIZER: "compatible:gpt-5.5", TARGET: "compatible:mine"},
            yaml="model: {optimizer: gpt-5.5, target: mine}\n", flags={"backend": backend})
        for backend in ("openai_compatible", "compat")
    ),
    row("a provider's own model key names the roles that name none",
        {OPTIMIZER: "minimax:MiniMax-M2", TARGET: "minimax:MiniMax-M9"},
        flags={
            **{"backend": "minimax", "optimizer_backend": "minimax"},
            **{"minimax_model": "MiniMax-M2", "target_model": "MiniMax-M9"},
        }),
    row("one for each role", {OPTIMIZER: "copilot_cli:o", TARGET: "copilot_cli:t"},
        flags={"backend": "copilot", "copilot_chat_optimizer_model": "o", "copilot_chat_target_model": "t"}),
    row("a role's variable beats the common one", {OPTIMIZER: "qwen:both", TARGET: "qwen:mine"},
        environ={"QWEN_CHAT_MODEL": "both", "TARGET_QWEN_CHAT_MODEL": "mine"},
        flags={"optimizer_backend": "qwen", "target_backend": "qwen"}),
    row("a compatible model of the environment", {TARGET: "compatible:served", OPTIMIZER: "compatible:named"},
        environ={
            **{**ALL, "OPENAI_COMPATIBLE_MODEL": "served", "TARGET_BACKEND": "openai_compatible"},
            "OPTIMIZER_BACKEND": "compat",
        },
        flags={"optimizer_model": "named"}),
    *(
        row(f"the target {text}", {TARGET: name}, flags={"target_model": text})
        for text, name in [
            ("claude-cli:sonnet", "claude_cli:sonnet"),
            ("claude_code/sonnet", "claude_code/claude_cli:sonnet"),
            ("claude-code/claude-cli:sonnet", "claude_code/claude_cli:sonnet"),
            ("codex/gpt-5.5", "codex/codex_cli:gpt-5.5"),
            ("cursor/composer-2.5", "cursor/cursor_cli:composer-2.5"),
            ("opencode/openai:gpt-5.5", "opencode/openai:gpt-5.5"),
            ("qwen2.5:7b", "openai:qwen2.5:7b"),
            ("local:smollm2", "local:smollm2"),
            ("openai:gpt-5.5", "openai:gpt-5.5"),
            ("local:y.gguf", "local:CWD/y.gguf"),
        ]
    ),
    row("a program without a model chooses itself", {"target:name": ""}, flags={"target_backend": "copilot_exec"}),
    *(
        row(f"openai is no agent program: {flags}", {TARGET: "openai:gpt-5.5"}, flags=flags)
        for flags in ({"backend": "openai"}, {"target_backend": "openai"})
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), MODELS)
def test_a_backend_or_a_name_means_this_model(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


CONNECTIONS = [
    *(
        row(f"natural variables of {model}",
            {
                **{"target:provider": provider, "target:name": "m", "target:base_url": url, "target:api_key": key},
                "source model.target.base_url": f"environment {variable}_BASE_URL",
                "source model.target.api_key": f"environment {variable}_API_KEY",
            },
            environ=ALL, flags={"target_model": model})
        for model, provider, url, key, variable in [
            ("openai:m", "openai", "http://openai/v1", "sk-openai-key", "OPENAI"),
            ("m", "openai", "http://openai/v1", "sk-openai-key", "OPENAI"),
            ("anthropic:m", "anthropic", "http://anthropic", "sk-ant-key", "ANTHROPIC"),
            ("compatible:m", "compatible", "http://compatible/v1", "compat-key-1", "OPENAI_COMPATIBLE"),
        ]
    ),
    row("two roles may have two providers", {"target:api_key": "sk-openai-key", "optimizer:api_key": "sk-ant-key"},
        environ=ALL, flags={"target_model": "openai:a", "optimizer_model": "anthropic:b"}),
    row("azure by its three variables serves bare names",
        {
            **{"target:provider": "azure", "target:name": "d", "target:base_url": "http://az/v1"},
            **{"target:api_key": "azure-key-1", "target:options": {"auth_mode": "openai_compatible"}},
        },
        environ={**AZURE, "AZURE_OPENAI_AUTH_MODE": "openai_compatible"}, flags={"target_model": "d"}),
    row("a name of openai stays there",
        {"target:provider": "openai", "target:base_url": None, "target:api_key": "sk-openai-key"},
        environ={**AZURE, **OPENAI}, flags={"target_model": "openai:m"}),
    row("a nearer endpoint decides between two", {"model.target.base_url": "http://az2/v1"},
        environ={**AZURE, "OPENAI_BASE_URL": "http://oa/v1"},
        flags={"target_model": "m", "optimizer_model": "m", "azure_openai_endpoint": "http://az2/v1"}),
    row("the same endpoint twice is one", {"model.target.base_url": "http://a/v1"},
        options=["model.target=compatible:x@http://a/v1", "model.target.base_url=http://a/v1/"]),
    row("an endpoint of the file beats one of the environment", {"model.target.base_url": "http://mine/v1"},
        yaml="model: {target: {name: 'openai:m', base_url: 'http://mine/v1'}}\n", environ=ALL),
    *(
        row(f"an endpoint of the file {said}", {"model.target.base_url": url},
            yaml=f"model: {{target: {{name: '{name}', base_url: 'http://mine/v1'}}}}\n", flags={"target_model": flag},
            environ=OPENAI)
        for said, name, flag, url in [
            ("gives way to one in a flag", "compatible:m", "compatible:m@http://new/v1", "http://new/v1"),
            ("stays with its provider's models", "compatible:m", "compatible:other", "http://mine/v1"),
            ("stays with bare names of its provider", "openai:m", "other", "http://mine/v1"),
            ("gets no key of another provider", "compatible:m", "openai:m", None),
            ("gets no bare name of another provider", "compatible:m", "gpt-5.4", None),
        ]
    ),
    *(
        row(f"azure logs in with {mode}", {"target:options": options},
            environ={**AZURE, "AZURE_OPENAI_AUTH_MODE": mode}, flags={"target_model": "azure:m"})
        for mode, options in [
            ("", {}),
            ("aad", {"auth_mode": "managed_identity"}),
            ("compat", {"auth_mode": "openai_compatible"}),
            ("key", {"auth_mode": "api_key"}),
        ]
    ),
    row("azure without a key logs in by itself", {"target:options": {}, "target:api_key": None},
        environ={"AZURE_OPENAI_ENDPOINT": "http://az"}, flags={"target_model": "azure:m"}),
    *(
        row(f"an endpoint of one role, {spelling}",
            {"model.target.base_url": "http://mine", "model.optimizer.base_url": "http://az/v1"},
            environ={**AZURE, spelling: "http://mine"}, flags={"target_model": "azure:t", "optimizer_model": "azure:o"})
        for spelling in ("TARGET_AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_TARGET_ENDPOINT")
    ),
    row("a role's key beats the common one", {"model.target.temperature": 0.1},
        yaml="model:\n  target_qwen_chat_temperature: 0.1\n  qwen_chat_temperature: 0.2\n  target: qwen:m\n",
        flags={"qwen_chat_temperature": "0.3"}),
    row("unless that stands nearer", {"model.target.temperature": 0.2},
        yaml="model:\n  qwen_chat_temperature: 0.2\n  target: qwen:m\n", environ={"TARGET_QWEN_CHAT_TEMPERATURE": "0.9"}),
    row("a role's own setting beats its provider's", {"model.target.temperature": 0.8},
        flags={"target_model": "qwen:m", "qwen_chat_temperature": "0.3", "model.target.temperature": 0.8}),
    row("a wrong variable of a provider nobody uses stops nobody", {TARGET: "world"},
        environ={"QWEN_CHAT_TEMPERATURE": "hot"}, flags={"target_model": "world", "optimizer_model": "world"}),
    row("of two variables for one key the first counts", {"target:api_key": "gemini-key-1"},
        environ={"GOOGLE_API_KEY": "google-key-1", "GEMINI_API_KEY": "gemini-key-1"}, flags={"target_model": "gemini:m"}),
    row("else the second", {"target:api_key": "google-key-1"},
        environ={"GOOGLE_API_KEY": "google-key-1"}, flags={"target_model": "gemini:m"}),
    *(
        row(f"a login is not replaced by a vendor's key that {model} would not use", {"target:api_key": key},
            environ={**KEYS, **own}, flags={"target_model": model})
        for model, own, key in [
            ("codex_cli:gpt-5.5", {}, None),
            ("claude_cli:sonnet", {}, "sk-ant-1"),
            ("claude_cli:sonnet", TOKEN, "sk-ant-oat-1"),
            ("claude_code/sonnet", {}, "sk-ant-1"),
            ("claude_code/sonnet", TOKEN, "sk-ant-oat-1"),
            ("codex/gpt-5.5", {}, "sk-openai-key"),
            ("codex/gpt-5.5", {"CODEX_API_KEY": "sk-codex-1"}, "sk-codex-1"),
        ]
    ),
    *(
        row(f"the old name {name}", {"target:agent": {"path": "/opt/codex", "sandbox": "read-only"}}, yaml=text)
        for name in ("codex_path", "codex_cli_bin", "codex_bin")
        for text in (
            f"{name}: /opt/codex\nsandbox: read-only\ntarget_model: codex/m\n",
            f"model:\n  {name}: /opt/codex\n  codex_sandbox: read-only\n  target: codex/m\n",
        )
    ),
    *(
        row(f"a benchmark's own key comes before an old name ({given})", {"env.sandbox": "loose"}, **given)
        for given in (
            {"flags": {"env": "toy", "sandbox": "loose"}},
            {"flags": {"env": "toy"}, "options": ["sandbox=loose"]},
        )
    ),
    row("the old azure names are the same keys", {"target:base_url": "http://az", "target:options": {"api_version": "2024"}},
        yaml="azure_endpoint: http://az\nazure_api_key: old-key-1\nazure_api_version: '2024'\ntarget_model: azure:m\n"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), CONNECTIONS)
def test_keys_and_endpoints_reach_the_provider_they_name(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


DOTENV = [
    row("an endpoint of a .env goes with its key",
        {
            **{"model.target.base_url": "http://gateway/v1", "warnings": ()},
            "source model.target.base_url": ".env OPENAI_BASE_URL",
        },
        files={".env": "OPENAI_BASE_URL=http://gateway/v1\nOPENAI_API_KEY=sk-openai-key\n"}, flags={"target_model": "openai:m"}),
    *(
        row(f"and never gets a key of the {where}",
            {
                **{"model.target.base_url": None, "target:api_key": "sk-openai-key"},
                "warnings": ("OPENAI_BASE_URL in .env is not used",),
            },
            files={".env": "OPENAI_BASE_URL=http://evil/v1\nOPENAI_API_KEY=their-own-key\n"}, **given)
        for where, given in {
            "environment": {"environ": OPENAI, "flags": {"target_model": "openai:m", "optimizer_model": "world"}},
            "config": {
                "yaml": "model: {target: {name: 'openai:m', api_key: sk-openai-key}, optimizer: world}\n",
            },
        }.items()
    ),
    row("nor does one of azure, which is no other name's either",
        {
            **{TARGET: "openai:m", "model.target.base_url": None},
            "warnings": ("AZURE_OPENAI_ENDPOINT in .env is not used",),
        },
        files={".env": "AZURE_OPENAI_ENDPOINT=http://evil/v1\n"},
        environ={"AZURE_OPENAI_API_KEY": "azure-key-1", **OPENAI}, flags={"target_model": "m"}),
    row("nor the person's own login",
        {"model.target.base_url": None, "warnings": ("AZURE_OPENAI_ENDPOINT in .env is not used",)},
        files={".env": "AZURE_OPENAI_ENDPOINT=https://evil.openai.azure.com\n"},
        flags={"target_model": "azure:m", "optimizer_model": "world"}),
    *(
        row(f"nor one inside a model string of a .env, for {provider}",
            {"model.target.base_url": None, "warnings": ("TARGET_DEPLOYMENT in .env is not used",)},
            files={".env": f"TARGET_DEPLOYMENT={provider}:m@http://evil/v1\n"}, environ={variable: "key-of-the-user"})
        for provider, variable in [("azure", "AZURE_OPENAI_API_KEY"), ("compatible", "OPENAI_COMPATIBLE_API_KEY")]
    ),
    row("a .env does not choose the programs that start here",
        {"target:agent": {}, "warnings": ("CODEX_EXEC_PATH in .env is not used", "CODEX_SANDBOX in .env is not used")},
        files={".env": "CODEX_EXEC_PATH=./evil\nCODEX_SANDBOX=danger-full-access\n"}, flags={"target_model": "codex/m"}),
    *(
        row(f"nor is {target} read from it", {f"source {TARGET}": "default", "warnings": ("TARGET_DEPLOYMENT in .env is not used",)},
            files={".env": f'TARGET_DEPLOYMENT="{target}"\n'})
        for target in ("cmd: ./evil", "evil.py:answer", "http://127.0.0.1:9/answer", "local:evil.gguf", "evil.GGUF")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), DOTENV)
def test_a_dotenv_file_may_be_somebody_elses(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


ROLES = [
    *(
        row(f"a server on {host} needs no key", {"target:api_key": None},
            flags={"target_model": f"compatible:m@http://{host}/v1"})
        for host in ("127.0.0.1:8000", "localhost", "[::1]:9")
    ),
    row("a far server without a key is said so on purpose", {"target:api_key": None},
        flags={"target_model": "compatible:m@http://lan/v1"}, options=["model.target.api_key=none"]),
    row("a knob left unset sends nothing",
        {f"target:{knob}": None for knob in ("temperature", "top_p", "seed", "reasoning_effort")},
        flags={"target_model": HERE}),
    row("a role is built from its own settings",
        {
            **{"target:temperature": 0.5, "target:top_p": 0.9, "target:seed": 3, "target:reasoning_effort": "high"},
            **{"target:max_tokens": 100, "target:timeout": 9, "target:connections": 200},
            **{"model.target.price.input": 1, "model.target.price.output": 2, "model.target.price.cached": None},
            **{"optimizer:temperature": None, "optimizer:reasoning_effort": "low", "optimizer:max_tokens": 16384},
            **{"optimizer:timeout": 33, "optimizer:price": None, "optimizer:harness": "chat"},
        },
        flags={"target_model": HERE, "optimizer_model": HERE, "workers": 200},
        options=[
            *("model.target.temperature=0.5", "model.target.top_p=0.9", "model.target.seed=3"),
            *("model.target.max_tokens=100", "model.target.timeout=9", "model.target.reasoning_effort=high"),
            *("model.target.price.input=1", "model.target.price.output=2"),
            *("model.reasoning_effort=low", "env.exec_timeout=33"),
        ]),
    *(
        row(f"replies of {backend} are not cut unasked", {f"{name}:max_tokens": 16384},
            flags={f"{name}_backend": backend, f"{name}_model": "m"}, environ={**KEYS, **COMPATIBLE})
        for backend in ("openai_compatible", "qwen_chat", "minimax_chat")
        for name in ("optimizer", "target")
    ),
    row("a cap that was asked for holds and is said",
        {
            **{"optimizer:max_tokens": 8000, "target:max_tokens": 16384},
            "warnings": ("every reply of the optimizer is cut at 8000 tokens",),
        },
        files=BASED, config="base.yaml", environ=KEYS,
        flags={"optimizer_backend": "minimax", "target_backend": "openai", "target_model": "m"}),
    *(
        row(f"of two caps the smaller holds ({cap})", {"model.target.max_tokens": min(cap, 5000)},
            flags={"target_model": "qwen:m", "qwen_chat_max_tokens": "5000", "max_completion_tokens": str(cap)})
        for cap in (4000, 9000)
    ),
    row("a provider's timeout reaches both roles, its model neither",
        {"optimizer:name": "a", "target:name": "b", "optimizer:timeout": 9, "target:timeout": 9},
        flags={
            **{"optimizer_model": "minimax:a", "target_model": "minimax:b"},
            **{"minimax_timeout_seconds": "9", "exec_timeout": "50"},
        },
        environ=KEYS),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), ROLES)
def test_a_role_is_built_from_its_own_settings(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


THINKING = [
    *(
        row(f"thinking {mode!r} and {switch}", {"model.target.options": options},
            flags={
                **{"target_model": "qwen:m", "qwen_chat_thinking_mode": mode},
                "qwen_chat_enable_thinking": switch,
            })
        for mode, switch, options in [
            *(("", None, {}), ("server_default", None, {}), ("server_default", "false", {})),
            *((mode, switch, {"enable_thinking": True}) for mode, switch in
              [("enabled", None), ("", "true"), ("enabled", "true")]),
            *((mode, switch, {"enable_thinking": False}) for mode, switch in
              [("disabled", None), ("", "false"), ("disabled", "false")]),
        ]
    ),
    *(
        row(f"a nearer switch beats {mode}", {"model.target.options": {"enable_thinking": switch == "true"}},
            flags={"target_model": "qwen:m", "qwen_chat_enable_thinking": switch},
            environ={"QWEN_CHAT_THINKING_MODE": mode})
        for mode, switch in [("enabled", "false"), ("disabled", "true"), ("server_default", "true")]
    ),
    row("thinking is switched on over the shipped base", {"model.target.options": {"enable_thinking": True}},
        files=BASED,
        yaml="_base_: base.yaml\nmodel:\n  target_backend: qwen_chat\n  qwen_chat_enable_thinking: true\n"),
    row("a mode of the environment is not overwritten by a blank",
        {
            "model.target.options": {"enable_thinking": True},
            "source model.target.options.enable_thinking": "environment QWEN_CHAT_THINKING_MODE",
        },
        files=BASED, config="base.yaml", environ={"QWEN_CHAT_THINKING_MODE": "enabled"},
        flags={"target_model": "qwen:m"}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), THINKING)
def test_a13_thinking_has_three_states(files, given, expected, run, write, cwd):
    check(files, given, expected, run, write, cwd)


GIVEN = {
    "default": ("gpt-5.5", ""),
    ".env": ("dotenv-model", "TARGET_DEPLOYMENT"),
    "environment": ("environment-model", "TARGET_DEPLOYMENT"),
    "config": ("config-model", "c.yaml:4"),
    "cfg-options": ("option-model", "model.target"),
    "flag": ("flag-model", "--target_model"),
}


@pytest.mark.parametrize("strongest", LAYERS)
def test_each_layer_beats_all_below_it_and_is_named_as_the_source(strongest, run, write):
    name = {layer: GIVEN[layer][0] for layer in LAYERS[: LAYERS.index(strongest) + 1]}
    if ".env" in name:
        write(".env", f"TARGET_DEPLOYMENT={name['.env']}\n")
    write("c.yaml", f"train:\n  seed: 7\nmodel:\n  target: {name.get('config')}\n")
    resolved = run(
        "c.yaml" if "config" in name else None,
        environ={"TARGET_DEPLOYMENT": name["environment"]} if "environment" in name else {},
        options=[f"model.target={name['cfg-options']}"] if "cfg-options" in name else [],
        flags={"target_model": name.get("flag")},
    )
    source = resolved.provenance[TARGET]
    found = (resolved.config.model.target.name, source.layer, source.where)
    assert found == (f"openai:{GIVEN[strongest][0]}", strongest, GIVEN[strongest][1])


def test_every_key_has_a_source(run):
    sources = run(flags={"env": "toy"}).provenance
    assert {"train.seed", "budget.usd", "env.difficulty", "model.optimizer.price.input"} <= sources.keys()


@pytest.mark.parametrize("key", [key for key in VALUE_ALIASES if key.startswith("optimizer.")])
def test_every_spelling_is_the_one_value(key, run, write):
    part = key.removeprefix("optimizer.")
    for name, others in VALUE_ALIASES[key].items():
        for word in (name, *others):
            write("c.yaml", f"optimizer:\n  {part}: {word}\n")
            for resolved in (
                run("c.yaml"),
                run(flags={part: word.upper()}),
                run(options=[f"{key}={word.replace('_', '-')}"]),
            ):
                assert getattr(resolved.config.optimizer, part) == name, word


LABELS = {
    ("azure_openai", "azure", "azure-openai"): ("azure:gpt-5.5",) * 2,
    ("claude_chat", "claude", "claude-cli"): ("claude_cli:claude-sonnet-4-6",) * 2,
    ("copilot_chat", "copilot", "copilot_cli", "github_copilot"): ("copilot_cli",) * 2,
    ("codex", "codex_exec"): ("codex_cli:gpt-5.5", "codex/codex_cli:gpt-5.5"),
    ("qwen", "qwen_chat"): ("openai:gpt-5.5", "qwen:Qwen/Qwen3.5-4B"),
    ("minimax", "minimax_chat"): ("openai:gpt-5.5", "minimax:MiniMax-M3"),
    ("claude_code_exec",): ("openai:gpt-5.5", "claude_code/claude_cli:claude-sonnet-4-6"),
    ("cursor", "cursor_agent", "cursor_exec"): ("openai:gpt-5.5", "cursor/cursor_cli:composer-2.5"),
    ("copilot_exec",): ("openai:gpt-5.5", "copilot/copilot_cli"),
    ("openai_chat", "openai"): ("openai:gpt-5.5",) * 2,
    ("anthropic",): ("anthropic:claude-sonnet-4-6",) * 2,
    ("opencode",): ("openai:gpt-5.5", "opencode/opencode_cli"),
    ("world",): ("world",) * 2,
    ("handoff",): ("handoff",) * 2,
}


@pytest.mark.parametrize(("names", "models"), LABELS.items(), ids=[names[0] for names in LABELS])
def test_a_label_fills_the_roles_it_is_for_with_its_own_default_models(names, models, run, write):
    # A public file says the default name aloud, and openai_chat for both roles.
    both = "optimizer_backend: openai_chat, target_backend: openai_chat"
    write("c.yaml", f"model: {{optimizer: gpt-5.5, target: gpt-5.4, {both}}}\n")
    optimizer, target = models
    for name in names:
        model = run(flags={"backend": name}).config.model
        assert (model.optimizer.name, model.target.name) == models, name
        resolved = run("c.yaml", flags={"backend": name})
        model = resolved.config.model
        assert (model.optimizer.name, model.target.name) == (optimizer, target.replace("gpt-5.5", "gpt-5.4"))
        replaced = [one for one in resolved.warnings if "is the public default and no model of" in one]
        assert len(replaced) == sum("gpt-5" not in model for model in models), name


def test_every_public_backend_name_is_known():
    public = (
        "anthropic azure azure_openai claude claude_chat claude_code_exec codex codex_exec compat compatible"
        " copilot copilot_chat copilot_cli copilot_exec cursor cursor_agent cursor_exec github_copilot minimax"
        " minimax_chat openai openai_chat openai_compatible openai_compatible_chat qwen qwen_chat"
    )
    assert set(public.split()) <= declared().backends.keys()


def test_a_public_variable_that_does_nothing_here_is_told_once_with_the_reason(run, write):
    for name, (why, harmless) in IGNORED_VARIABLES.items():
        write(".env", f"{name}=7\n")
        warnings = run(environ={name: "9"}, flags={"target_model": "world"}).warnings
        assert warnings == (f"The variable {name} has no effect here: {why}.",)
        for value in ("", *harmless):
            assert run(environ={name: value}, flags={"target_model": "world"}, dotenv=False).warnings == ()


def test_a_list_is_read_from_text_also_where_text_would_do():
    scorer = Leaf(key="env.scorer", annotation=str | list[str], default=None, description="")
    assert scorer.read('["node", "grade.js"]', is_text=True) == ["node", "grade.js"]
    assert scorer.read("cmd: node [grade].js", is_text=True) == "cmd: node [grade].js"
    prompt = Leaf(key="env.prompt", annotation=str, default=None, description="")
    assert prompt.read("[a] {field}", is_text=True) == "[a] {field}"


def test_a_configuration_has_other_values_by_key_and_stays_as_it_is():
    config = Config()
    other = config.having({"model.target.name": "world", "model.target.seed": 7, "train.folds": 1})
    assert (other.model.target.name, other.model.target.seed, other.train.folds) == ("world", 7, 1)
    assert config == Config() and other.model.optimizer == config.model.optimizer


BUDGETS = {
    "$2": {"usd": 2},
    "$ 0.50": {"usd": 0.5},
    "2 usd": {"usd": 2},
    "2.5 dollars": {"usd": 2.5},
    "$2,500": {"usd": 2500},
    "200k tokens": {"tokens": 200_000},
    "1.1k tokens": {"tokens": 1100},
    "2M tokens": {"tokens": 2_000_000},
    "1,000,000 tokens": {"tokens": 1_000_000},
    "500 calls": {"calls": 500},
    "1 call": {"calls": 1},
    "1e3 calls": {"calls": 1000},
    "$2, 200k tokens,500 calls": {"usd": 2, "tokens": 200_000, "calls": 500},
    "10 000 tokens, $1": {"usd": 1, "tokens": 10_000},
    "2 hours 30 minutes": {"minutes": 150},
    "1h30m": {"minutes": 90},
    "2h": {"minutes": 120},
    "$1, 2 h 5 min": {"usd": 1, "minutes": 125},
}


@pytest.mark.parametrize("text", BUDGETS)
def test_a_budget_reads(text):
    assert parse_budget(text).model_dump(exclude_none=True, exclude={"per_rollout"}) == BUDGETS[text]


# Faults of the public system's configuration that must not occur here (protocol 8.A)


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


def test_a16_the_defaults_are_the_papers(run):
    config = run().config
    optimizer = config.optimizer
    assert (config.train.num_epochs, config.train.batch_size, config.train.strategy) == (4, 40, "paper")
    assert (config.gradient.minibatch_size, config.gradient.merge_batch_size) == (8, 8)
    assert (optimizer.learning_rate, optimizer.min_learning_rate, optimizer.lr_scheduler) == (4, 2, "cosine")
    assert (optimizer.lr_control_mode, optimizer.skill_update_mode) == ("fixed", "patch")
    assert (optimizer.use_slow_update, optimizer.slow_update_gate_with_selection) == (True, True)
    assert (optimizer.slow_update_samples, optimizer.use_meta_skill) == (20, True)
    assert (config.evaluation.use_gate, config.gate.policy) == (True, "strict")


def test_s2_reading_a_configuration_writes_no_variable(run):
    before = dict(os.environ)
    run(environ=AZURE, flags={"target_model": "azure:m", "qwen_chat_api_key": "qwen-1", "backend": "azure"})
    assert dict(os.environ) == before


@pytest.mark.slow
def test_every_flat_name_reaches_a_key(run):
    for name in FLAT_NAMES:
        assert run(flags={"env": "toy", name: "$1" if name == "budget" else None})
