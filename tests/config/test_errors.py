"""Bad input: the key, where it stands, what was expected, and the near miss - all of it at once."""

from __future__ import annotations

import pytest

from config._rows import row, write_all
from skillopt.config.keys import IGNORED_KEYS
from skillopt.config.load import load
from skillopt.config.roles import resolve_role
from skillopt.config.sections import parse_budget
from skillopt.errors import ConfigError

AZURE = {"AZURE_OPENAI_ENDPOINT": "http://az/v1", "AZURE_OPENAI_API_KEY": "azure-key-1"}
WHOLE = "expected a whole number, not"
TOY = {"env": "toy"}
CASES = [
    # Keys
    *(
        row(f"the unknown option {key}", [f"{key}: unknown key.", near], options=[f"{key}=1"], flags=TOY)
        for key, near in [
            ("train.bach_size", "Did you mean 'train.batch_size'?"),
            ("train.learning_rate", "Did you mean 'optimizer.learning_rate'?"),
            ("model.target.temprature", "Did you mean 'model.target.temperature'?"),
            ("env.dificulty", "Did you mean 'env.difficulty'?"),
            ("trian.seed", "Did you mean 'train.seed'?"),
            ("bach_size", "Did you mean 'batch_size'?"),
            ("gate.xyzzy", "Known: policy, alpha, max_chars, confirm_draws, max_tokens_increase,"),
        ]
    ),
    row("an unknown key of a file", "train.bach_size (c.yaml:3): unknown key. Did you mean 'train.batch_size'?",
        yaml="train:\n  seed: 1\n  bach_size: 3\n"),
    row("an unknown section and flat key",
        "c.yaml:1: no section named 'trian'. Did you mean 'train'?\n"
        "bach_size (c.yaml:3): unknown key. Did you mean 'batch_size'?",
        yaml="trian:\n  seed: 1\nbach_size: 3\n"),
    row("an unknown flag", "--bach_size: unknown key. Did you mean 'batch_size'?", flags={"bach_size": 3}),
    row("a key that is overridden", ["train.sed (b.yaml:1): unknown key"],
        files={"b.yaml": "train: {sed: 1}\n"}, yaml="_base_: b.yaml\ntrain: {seed: 1}\n"),
    row("a benchmark, whose keys are spared", "env.name: No benchmark named 'tooy'. Did you mean 'toy'?",
        options=["env.name=tooy", "env.difficulty=2"]),
    row("a benchmark's key without one", ["No benchmark is named (env.name)"], options=["env.difficulty=2"]),
    # Values
    *(
        row(yaml, [part], yaml=f"{yaml}\n")
        for yaml, part in [
            ("train: {batch_size: forty}", f"train.batch_size (c.yaml:1): {WHOLE} 'forty'"),
            ("train: {batch_size: 1.5}", f"train.batch_size (c.yaml:1): {WHOLE} 1.5"),
            ("train: {batch_size: true}", f"train.batch_size (c.yaml:1): {WHOLE} True"),
            ("train: {batch_size: 0}", "train.batch_size (c.yaml:1): expected at least 1, not 0"),
            ("train: {batch_size: 'many'}", f"{WHOLE} 'many'"),
            ("train: {batch_size: '4.5'}", f"{WHOLE} '4.5'"),
            ("train: {seed: 'x', batch_size: y}", f"{WHOLE} 'y'"),
            ("env: {workers: null}", f"env.workers (c.yaml:1): {WHOLE} None"),
            ("evaluation: {use_gate: 1}", "evaluation.use_gate (c.yaml:1): expected true or false, not 1"),
            ("evaluation: {use_gate: 'maybe'}", "expected true or false, not 'maybe'"),
            ("evaluation: {gate_mixed_weight: 2}", "gate_mixed_weight (c.yaml:1): expected at most 1.0, not 2"),
            ("evaluation: {gate_metric: hrad}", "is not one of hard, soft, mixed. Did you mean 'hard'?"),
            ("optimizer: {lr_scheduler: cosin}", "Did you mean 'cosine'?"),
            ("gradient: {merge_batch_size: 1}", "expected at least 2, not 1"),
            ("model: {target: [a]}", "model.target (c.yaml:1): expected text, not ['a']"),
            ("model: {target: {price: {input: 1}}}", "model.target.price.output: is missing"),
            ("model: {target: {price: 3}}", "model.target.price (c.yaml:1): is a section"),
            ("train: 3", "c.yaml:1: 'train' is a section"),
            ("budget: 3", "budget takes text"),
            ("budget: 3 apples", "unknown unit"),
            ("env: {name: toy, difficulty: 0}", "env.difficulty (c.yaml:1): expected at least 1, not 0"),
            ("env: {name: toy, labels: [1]}", "env.labels (c.yaml:1): expected text, not [1]"),
        ]
    ),
    row("a blank path", "--triggers: expected a path, not ''", flags={"triggers": ""}),
    *(
        row(f"the unknown value {word}", [f"Did you mean '{near}'?"], options=[f"{key}={word}"])
        for key, word, near in [
            ("optimizer.lr_control_mode", "autonomos", "autonomous"),
            ("optimizer.lr_control_mode", "no_lrr", "no_lr"),
            ("optimizer.skill_update_mode", "ful_rewrite", "full_rewrite"),
            ("optimizer.longitudinal_pair_policy", "chnged", "changed"),
            ("gate.policy", "conform", "confirm"),
            ("model.target_backend", "azzure", "azure"),
        ]
    ),
    row("an end of the schedule above its limit", ["min_learning_rate (5) is above learning_rate (2)"],
        flags={"edit_budget": 2, "min_edit_budget": 5}),
    row("two schedules at once", ["lr_scheduler (c.yaml:1) and optimizer.lr_control_mode", "the same key"],
        yaml="optimizer: {lr_scheduler: autonomous, lr_control_mode: fixed}\n"),
    row("two names with two values", ["same key with different values; keep one of them"],
        yaml="env:\n  max_completion_tokens: 50\nmodel:\n  target:\n    max_tokens: 60\n"),
    row("an old and a new name", ["are the same key with different values"],
        yaml="azure_endpoint: http://one\nazure_openai_endpoint: http://two\n"),
    # Providers and agent programs
    row("a value of a provider nobody uses",
        "model.qwen_chat_temperature (c.yaml:2): expected a number, not 'hot'",
        yaml="model:\n  qwen_chat_temperature: hot\n"),
    row("a value by its public key", "model.qwen_chat_temperature (c.yaml:3): expected at least 0.0, not -1",
        yaml="model:\n  target: qwen:m\n  qwen_chat_temperature: -1\n"),
    row("a variable", "QWEN_CHAT_TEMPERATURE: expected a number, not 'hot'",
        environ={"QWEN_CHAT_TEMPERATURE": "hot"}, flags={"target_model": "qwen:m", "optimizer_model": "qwen:m"}),
    row("an alias of a value", ["Did you mean 'azure_cli'?"],
        flags={"target_model": "azure:m", "azure_openai_auth_mode": "azure_clli"}),
    row("a word for thinking", ["enabled"], flags={"target_model": "qwen:m", "qwen_chat_thinking_mode": "enable"}),
    row("a variable with such a word",
        "QWEN_CHAT_THINKING_MODE: 'enabld' is not one of server_default, enabled, disabled. Did you mean 'enabled'?",
        flags={"target_model": "qwen:m"}, environ={"QWEN_CHAT_THINKING_MODE": "enabld"}),
    *(
        row(f"thinking {mode} and {switch}", ["--qwen_chat_thinking_mode", "--qwen_chat_enable_thinking"],
            flags={
                **{"target_model": "qwen:m", "qwen_chat_thinking_mode": mode},
                "qwen_chat_enable_thinking": switch,
            })
        for mode, switch in [("enabled", "false"), ("disabled", "true"), ("server_default", "true")]
    ),
    row("an option of another provider", "model.target.options.region (config c.yaml:4) is an option of minimax, and"
        " model.target is 'openai:m'",
        yaml="model:\n  target:\n    name: openai:m\n    options: {region: cn_zh}\n"),
    row("a setting of no program", "model.target.agent.path (flag --model.target.agent.path) is a setting of an agent"
        " program, and model.target is 'openai:m'",
        flags={"target_model": "openai:m", "model.target.agent.path": "x"}),
    *(
        row(f"{backend} as optimizer",
            [f"model.optimizer_backend: '{backend}' is an agent that works on tasks, so only the target", hint],
            flags={"optimizer_backend": backend})
        for backend, hint in [
            ("claude_code_exec", "; 'claude_chat' is the same program as a model"),
            ("copilot_exec", "; 'copilot_chat' is the same program as a model"),
            ("cursor_exec", "only the target can have it"),
        ]
    ),
    row("a login without its harness", ["which only a target can have"], flags={"target_model": "cursor_cli:x"}),
    row("a login of another harness", ["which only a target can have"], flags={"target_model": "chat/opencode_cli:x"}),
    *(
        row(f"{login} as optimizer", ["is the login of the harness"], flags={"optimizer_model": f"{login}:x"})
        for login in ("cursor_cli", "opencode_cli")
    ),
    *(
        row(f"two endpoints: {endpoints}", ["model.target has two endpoints", *endpoints], **given)
        for endpoints, given in [
            (("http://a/v1", "http://b/v1"),
             {"options": ["model.target=compatible:x@http://a/v1", "model.target.base_url=http://b/v1"]}),
            (("http://a/v1", "http://c/v1"),
             {"options": ["model.target=azure:x", "model.target.base_url=http://a/v1",
                          "model.azure_openai_endpoint=http://c/v1"]}),
            (("http://az/v1", "http://oa/v1"),
             {"environ": {**AZURE, "OPENAI_BASE_URL": "http://oa/v1"},
              "flags": {"target_model": "m", "optimizer_model": "azure:m"}}),
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "said"), CASES)
def test_what_is_wrong_is_named(files, given, said, fails, write):
    write_all(write, files)
    message = fails(**given)
    if isinstance(said, str):
        assert message == said
    else:
        assert [part for part in said if part not in message] == []


@pytest.mark.slow
@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 3_000 + "]" * 3_000, "!!int abc", "[" * 3_000])
def test_a_value_that_python_cannot_read_is_refused_by_its_key(value, fails, write):
    assert fails(options=[f"train.batch_size={value}"]).partition("train.batch_size: ")[2]
    write("c.yaml", f"train:\n  batch_size: {value}\n")
    assert "c.yaml:" in fails("c.yaml")


def test_everything_wrong_is_told_at_once_one_line_each(fails, write):
    write(
        "c.yaml",
        "train: {batch_size: x, sed: 1}\nenv: {name: toy, difficulty: hard}\ngate: {policy: lenient}\n",
    )
    lines = fails("c.yaml", flags={"num_epochs": 0}, options=["nokey"]).splitlines()
    assert len(lines) == 6
    for part in ("batch_size", "sed", "difficulty", "policy", "num_epochs", "nokey"):
        assert sum(part in line for line in lines) == 1


# Public keys that do nothing, and those that are refused


def test_a_dead_public_key_loads_with_one_warning_and_silently_where_it_asks_for_nothing(run, write):
    for key, (why, harmless) in IGNORED_KEYS.items():
        section, name = key.split(".")
        write("b.yaml", f"{section}: {{{name}: 3}}\n")
        expected = () if harmless is None else (f"{key} (b.yaml:1): this key has no effect ({why})",)
        assert run("b.yaml").warnings == expected
        for value in ("", *(["x"] if harmless is None else harmless)):
            assert run(options=[f"{key}={str(value).lower()}"]).warnings == (), key
    flags = {"meta_edit_budget": 3, "max_analyst_rounds": 2, "judge_retries": 1, "codex_exec_full_auto": True}
    assert len(run(flags=flags).warnings) == 4


@pytest.mark.parametrize(
    ("key", "harmless", "asking", "said"),
    [
        ("evaluation.use_semantic_density", "false", "true", "rewards a skill for shouting"),
        ("env.max_turns", "1", "3", "asked once"),
    ],
)
def test_what_is_refused_loads_while_it_asks_for_nothing(key, harmless, asking, said, run, fails, write):
    assert run(options=[f"{key}={harmless}"]).warnings == ()
    section, name = key.split(".")
    write("c.yaml", f"{section}:\n  {name}: {harmless}\n")
    assert run("c.yaml").warnings == ()
    message = fails(options=[f"{key}={asking}"])
    assert said in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("flag", "owner"),
    [
        ("max_steps", "alfworld"),
        ("data_root", "alfworld, docvqa, spreadsheetbench"),
        ("use_sketch", "livemathematicianbench"),
    ],
)
def test_a_flag_of_another_benchmark_names_that_benchmark(flag, owner, tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(None, flags={"env": "searchqa", flag: "1"}, options=[], environ={}, cwd=tmp_path)
    assert str(caught.value) == f"--{flag}: is a key of {owner}, and env.name is searchqa"


# What is only wrong once a role is built


@pytest.mark.parametrize(
    ("said", "given"),
    [
        *(
            (variable, {"flags": {"target_model": model}})
            for model, variable in [
                ("openai:m", "OPENAI_API_KEY"),
                ("anthropic:m", "ANTHROPIC_API_KEY"),
                ("compatible:m@https://far.example/v1", "OPENAI_COMPATIBLE_API_KEY"),
                ("compatible:m", "OPENAI_COMPATIBLE_BASE_URL"),
                ("azure:m", "AZURE_OPENAI_ENDPOINT"),
            ]
        ),
        *(
            ("not filled in from the environment: leave it out and set OPENAI_API_KEY", {"flags": flags})
            for key in ("${HOUSE_KEY}", "$HOUSE_KEY", "%HOUSE_KEY%", "{{ HOUSE_KEY }}")
            for flags in [{"target_model": "openai:gpt-5.5", "model.target.api_key": key}]
        ),
        # `eval` never builds an optimizer, so a configuration may be without one.
        *(
            (f"model.target: name a model of {provider}", {"flags": {"backend": provider}})
            for provider in ("compatible", "gemini", "local")
        ),
    ],
)
def test_what_a_role_lacks_names_the_variable_to_set(said, given, run):
    with pytest.raises(ConfigError) as caught:
        resolve_role(run(**given).config, "target")
    assert str(caught.value).startswith("model.target")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2", "two usd", "$2 tokens", "$2,500 calls", "200,00 tokens", "1e400 tokens", "2 000 00 calls"),
        *("$-1", "$0", "1.5 calls", "5 cals", "$1, $2", "5 €"),
    ],
)
def test_what_is_no_budget_is_refused_with_the_forms_it_may_have(text):
    with pytest.raises(ConfigError, match="budget"):
        parse_budget(text)
