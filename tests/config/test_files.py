"""Config files: inheritance, duplicates, flat and structured form, packaged and public ones, paths, `.env`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from config._public_files import FILES
from config._rows import row, values, write_all
from skillopt.benchmarks import benchmarks
from skillopt.config.files import packaged_names, read_dotenv, resolve_path, yaml_value
from skillopt.config.load import Resolved, load
from skillopt.config.record import render
from skillopt.errors import ConfigError, SkillOptError
from skillopt.models import PROVIDERS

AZURE = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com", "AZURE_OPENAI_API_KEY": "azure-key-1"}
S = {"conf/s.md": "one", "s.md": "other"}
CASES = [
    row("a file inherits key by key from its base",
        {
            **{"train.seed": 3, "train.batch_size": 2, "source train.batch_size": "config base/b.yaml:1"},
            "source train.seed": "config child/c.yaml:3",
        },
        files={
            "base/b.yaml": "train: {seed: 1, batch_size: 2}\n",
            "child/c.yaml": "_base_: ../base/b.yaml\ntrain:\n  seed: 3\n",
        },
        config="child/c.yaml"),
    row("bases may have bases", {"train.seed": 1},
        files={"a.yaml": "train: {seed: 1}\n", "b.yaml": "_base_: a.yaml\n"}, yaml="_base_: b.yaml\n"),
    row("a packaged config may be a base",
        {"train.seed": 5, "source train.batch_size": "config configs/_base_/default.yaml:9"},
        yaml="_base_: configs/_base_/default.yaml\ntrain: {seed: 5}\n"),
    row("a path comes before a packaged name", {"train.seed": 77},
        files={"quickstart.yaml": "train: {seed: 77}\n"}, config="quickstart.yaml"),
    row("lookalikes of numbers stay text", {"env.split_ratio": "2:1:7", "env.mode": "2024-01-01"},
        yaml="env:\n  name: toy\n  split_ratio: 2:1:7\n  mode: 2024-01-01\n"),
    row("within a file the structured form wins", {"train.batch_size": 5},
        yaml="train: {batch_size: 5}\nbatch_size: 6\n"),
    row("a flat child beats a structured base", {"train.batch_size": 7},
        files={"tree.yaml": "train: {batch_size: 5}\n"}, yaml="_base_: tree.yaml\nbatch_size: 7\n"),
    row("and the other way round", {"train.batch_size": 8},
        files={"flat.yaml": "batch_size: 6\n"}, yaml="_base_: flat.yaml\ntrain: {batch_size: 8}\n"),
    row("paths are looked up beside the file, then here; what is written belongs here",
        {"env.skill_init": "CWD/conf/beside.md", "env.split_dir": "CWD/here", "env.out_root": "CWD/out"},
        files={
            "conf/c.yaml": "env: {name: toy, skill_init: beside.md, split_dir: here, out_root: out}\n",
            **{"conf/beside.md": "x", "here/x": "", "conf/out/x": ""},
        },
        config="conf/c.yaml"),
    row("a path that begins with a dot means the one beside the file",
        {"env.skill_init": "CWD/conf/s.md", "env.split_dir": "CWD/here"},
        files={**S, "conf/c.yaml": "env: {name: toy, skill_init: ./s.md, split_dir: ./here}\n", "here/x": ""},
        config="conf/c.yaml"),
    row("a base looks beside itself", {"env.skill_init": "CWD/base/s.md"},
        files={"base/b.yaml": "env: {skill_init: s.md}\n", "base/s.md": "x"}, yaml="_base_: base/b.yaml\n"),
    row("a path on a flag belongs here", {"env.skill_init": "CWD/s.md"},
        files={"conf/c.yaml": "train: {seed: 1}\n", "conf/s.md": "x"}, config="conf/c.yaml", flags={"skill_init": "s.md"}),
    row("a template that is a file follows the path rule", {"env.prompt": "CWD/conf/ask.md"},
        files={"conf/c.yaml": "env: {name: toy, prompt: ask.md}\n", "conf/ask.md": "x"}, config="conf/c.yaml"),
    row("one that is text does not", {"env.prompt": "Read {text}."}, yaml="env: {name: toy, prompt: 'Read {text}.'}\n"),
    row("a model file follows the path rule", {"model.target.name": "local:CWD/conf/m/x.gguf"},
        files={"conf/c.yaml": "model: {target: 'local:m/x.gguf'}\n", "conf/m/x.gguf": ""}, config="conf/c.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "expected"), CASES)
def test_a_file_says(files, given, expected, run, write, cwd):
    write_all(write, files)
    resolved = run(**given)
    assert values(resolved, expected, cwd) == expected
    assert resolved.warnings == ()


WRONG = [
    row("a circle of bases", "a.yaml -> b.yaml -> a.yaml",
        files={"a.yaml": "_base_: b.yaml\n", "b.yaml": "_base_: a.yaml\n"}, config="a.yaml"),
    row("a missing base", "c.yaml:2: _base_: No config file 'nothere.yaml'",
        yaml="train: {seed: 1}\n_base_: nothere.yaml\n"),
    row("a list of bases", "one file name", yaml="_base_: [x.yaml]\n"),
    row("a key twice", "c.yaml:4: key 'seed' is already on line 2; keep one of them\n"
        "c.yaml:5: key 'train' is already on line 1",
        yaml="train:\n  seed: 1\n  batch_size: 2\n  seed: 3\ntrain: {}\n"),
    row("a key twice inside a list", "c.yaml:3: key 'a' is already on line 3",
        yaml="env:\n  labels:\n    - {a: 1, a: 2}\n"),
    row("a misspelt packaged name", "Did you mean 'searchqa'?", config="serchqa"),
    row("a way out of the packaged ones", "No config file '../schema'", config="../schema"),
    row("a path that exists in both places", "env.skill_init (conf/c.yaml:2): 's.md' exists both as",
        files={**S, "conf/c.yaml": "env:\n  skill_init: s.md\n"}, config="conf/c.yaml"),
    row("with the way out", "write './s.md' for the first",
        files={**S, "conf/c.yaml": "env:\n  skill_init: s.md\n"}, config="conf/c.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "said"), WRONG)
def test_a_wrong_file_is_named(files, given, said, fails, write):
    write_all(write, files)
    assert said in fails(**given)


BOMB = "".join(
    f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n" for b, c in ["ab", "bc", "cd", "de", "ef", "fg", "gh"]
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("train: [1, 2", "a: b: c\n", "- 1\n", "train: &x {seed: *x}\n", "train: {<<: {seed: 1}}\n"),
        *("x: !!python/object:os.x 1\n", "train: {seed: !!int abc}\n", "train: {seed: !!bool maybe}\n"),
        *("train: {seed: !!timestamp 2026-02-30}\n", "train: {seed: !!timestamp x}\n"),
        *("train: {seed: [!!bool maybe]}\n", "_base_: ~nobody-of-this-name/x.yaml\n"),
        *(f"_base_: {'a' * 400}\n", f"a: &a [x, x, x, x, x, x, x, x, x]\n{BOMB}"),
    ],
)
def test_what_is_no_config_ends_in_one_message(text, fails, write):
    write("a.yaml", text)
    message = fails("a.yaml")
    assert message.startswith("a.yaml:")
    assert len(message.splitlines()) == 1


def test_an_empty_file_and_empty_sections_say_nothing(run, write):
    write("a.yaml", "")
    write("b.yaml", "train:\nmodel:\n  target:\n")
    assert run("a.yaml").config == run("b.yaml").config == run().config


@pytest.mark.parametrize(
    ("flat", "tree"),
    [
        (
            "optimizer_model: o\ntarget_model: t\nenv: toy\nedit_budget: 3\nbatch_size: 5\ndifficulty: 2\n"
            "split_ratio: 1:1:1\n",
            "model: {optimizer: o, target: {name: t}}\nenv: {name: toy, difficulty: 2, split_ratio: '1:1:1'}\n"
            "optimizer: {learning_rate: 3}\ntrain: {batch_size: 5}\n",
        ),
        (
            "task: toy\nseed_skill: s.md\nepochs: 2\nbatch_size: 5\nminibatch_size: 3\nlearning_rate: 3\n"
            "lr_min: 1\nn_workers: 4\n",
            "env: {name: toy, skill_init: s.md, workers: 4}\ntrain: {num_epochs: 2, batch_size: 5}\n"
            "gradient: {minibatch_size: 3}\noptimizer: {learning_rate: 3, min_learning_rate: 1}\n",
        ),
    ],
)
def test_the_flat_forms_mean_the_same(flat, tree, run, write):
    write("flat.yaml", flat)
    write("tree.yaml", tree)
    assert run("flat.yaml").config == run("tree.yaml").config


def test_one_file_seen_from_both_places_is_no_conflict(run, write, cwd):
    write("conf/c.yaml", "env: {skill_init: s.md}\n")
    write("s.md", "one")
    (cwd / "conf/s.md").symlink_to(cwd / "s.md")
    assert run("conf/c.yaml").config.env.skill_init == cwd / "conf/s.md"


def test_a_name_that_is_too_long_for_a_path_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is no path: File name too long"):
        resolve_path("x" * 5000, folder=tmp_path, cwd=tmp_path, output=False)


def test_a_path_that_leads_up_is_told_without_the_detour(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "tasks.csv").write_text("a,b")
    inner = tmp_path / "training"
    assert resolve_path("../tasks.csv", folder=inner, cwd=inner, output=False) == tmp_path / "tasks.csv"


def test_dotenv_is_read_with_quotes_exports_and_comments(tmp_path):
    path = tmp_path / ".env"
    path.write_text(
        "# note\nexport A='one two'\nB = \"x # y\"\nC=plain # note\nD=\nnot a line\nE=a=b\nF='q' # note\n"
    )
    assert read_dotenv(path) == {"A": "one two", "B": "x # y", "C": "plain", "D": "", "E": "a=b", "F": "q"}


# Public files


def public(folder: Path, name: str, texts: dict[str, str] = FILES, **flags: object) -> Resolved:
    """A public file, loaded from a folder of its own as in a clone."""
    for file, text in texts.items():
        path = folder / "mine" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load(f"mine/{name}", flags=flags, options=[], environ=AZURE, cwd=folder)


def quoted(tree: Any) -> Any:
    """The same with numbers and truth values as text."""
    if isinstance(tree, dict):
        return {key: quoted(value) for key, value in tree.items()}
    return str(tree).lower() if isinstance(tree, (bool, int, float)) else tree


@pytest.mark.parametrize("name", FILES)
def test_a_public_file_loads_and_every_value_it_holds_is_used(name, tmp_path):
    resolved = public(tmp_path, name)
    assert resolved.warnings == ()
    model = resolved.config.model
    in_tools = "tool_loop/" if name.startswith(("alfworld", "officeqa")) else ""
    assert (model.target.name, model.optimizer.name) == (f"{in_tools}azure:gpt-5.5", "azure:gpt-5.5")
    assert (model.target.base_url, model.reasoning_effort) == (AZURE["AZURE_OPENAI_ENDPOINT"], "medium")
    assert resolved.config.optimizer.slow_update_gate_with_selection is False
    assert resolved.config.evaluation.gate_metric == ("soft" if "soft" in name else "hard")
    shown = {key: value for key, value, _source in render(resolved)}
    unseen = ("max_turns", "max_completion_tokens", "split_ratio")
    for key, value in (yaml.safe_load(FILES[name]).get("env") or {}).items():
        if key not in unseen and value != "" and f"env.{key}" in shown:
            found = shown[f"env.{key}"]
            assert str(found).endswith(str(value)) if isinstance(value, str) else found == value, key
    # Numbers and truth values in quotes mean what they mean without.
    for write in (json.dumps, yaml.safe_dump):
        texts = {file: write(quoted(yaml_value(text))) for file, text in FILES.items()}
        rows = [(key, value) for key, value, _source in render(public(tmp_path, name, texts))]
        assert rows == list(shown.items())


def test_a_key_of_one_benchmark_in_anothers_file_is_refused(tmp_path):
    with pytest.raises(SkillOptError, match=r"is a key of alfworld, and env\.name is officeqa"):
        public(tmp_path, "officeqa/default.yaml", max_steps=3)
    with pytest.raises(SkillOptError, match=r"unknown key\. Did you mean 'max_steps'"):
        public(tmp_path, "alfworld/default.yaml", max_stpes=3)


def test_a_public_command_line_goes_with_a_public_file(tmp_path):
    other = "https://other.openai.azure.com"
    flags = {"azure_openai_endpoint": other, "optimizer_model": "o", "target_model": "t", "split_dir": "data"}
    model = public(tmp_path, "searchqa/default.yaml", **flags).config.model
    assert (model.optimizer.name, model.target.name) == ("azure:o", "azure:t")
    assert model.target.base_url == other
    # The base holds `openai_chat` for both roles, and a name that is only OpenAI's.
    for backend in ("claude_chat", "openai_compatible", "minimax_chat", "qwen_chat", "cursor_exec", "codex"):
        resolved = public(tmp_path, "_base_/default.yaml", backend=backend)
        assert not resolved.config.model.target.name.startswith("azure:"), backend


# Packaged files


def packaged(name: str | None, folder: Path, **flags: object) -> Resolved:
    return load(name, flags=flags, options=[], environ={}, cwd=folder)


def test_the_common_base_says_exactly_the_defaults(tmp_path):
    base = packaged("configs/_base_/default.yaml", tmp_path)
    assert base.config == packaged(None, tmp_path).config
    written = {key for key, source in base.provenance.items() if source.layer == "config"}
    sections = {key.partition(".")[0] for key in written}
    assert sections == {"train", "gradient", "optimizer", "evaluation", "gate"}


@pytest.mark.parametrize("name", benchmarks.names())
def test_the_published_benchmarks_train_as_published_and_others_with_what_was_added(name, tmp_path):
    resolved = packaged(None, tmp_path, env=name)
    assert isinstance(resolved.config.env.settings, benchmarks.get(name).Settings)
    published = {"alfworld", "docvqa", "livemathematicianbench", "officeqa", "searchqa", "spreadsheetbench"}
    by_file = [packaged(name, tmp_path)] if name in published else []
    for config in (resolved.config, *(each.config for each in by_file)):
        optimizer = config.optimizer
        assert (optimizer.use_slow_update, optimizer.use_meta_skill) == (True, True)
        added = (optimizer.skip_unchanged_epochs, optimizer.salvage, config.gate.leak_guard)
        assert added == (name not in published,) * 3
        assert name not in published or config.train.strategy == "paper"


def test_every_packaged_config_loads_without_a_warning(tmp_path):
    assert "searchqa" in packaged_names() and "_base_" not in " ".join(packaged_names())
    for name in packaged_names():
        assert packaged(name, tmp_path).warnings == (), name
    assert packaged("features/soft_gate", tmp_path).config.evaluation.gate_metric == "soft"


@pytest.mark.parametrize("name", ["searchqa", "configs/searchqa/default.yaml", "searchqa/default.yaml"])
def test_searchqa_is_found_under_its_public_names(name, tmp_path):
    config = packaged(name, tmp_path, split_dir="splits").config
    assert (config.env.name, config.env.settings.split_dir) == ("searchqa", tmp_path / "splits")
    assert (config.evaluation.repeats, config.evaluation.gate_metric, config.env.workers) == (1, "hard", 24)
    assert (config.train.num_epochs, config.train.batch_size, config.optimizer.learning_rate) == (4, 40, 4)


def test_the_quickstart_is_simulated_and_needs_no_key(tmp_path):
    config = packaged("quickstart", tmp_path).config
    assert config.env.name == "world"
    assert {config.model.target.name, config.model.optimizer.name} == {"world"} <= set(PROVIDERS.names())
