"""The configs that ship with the package."""

from __future__ import annotations

import pytest

from skillopt.benchmarks import benchmarks
from skillopt.config.files import packaged_names
from skillopt.config.load import load
from skillopt.models import PROVIDERS


def packaged(name, tmp_path, **flags):
    return load(name, flags=flags, options=[], environ={}, cwd=tmp_path)


def test_the_common_base_says_exactly_the_defaults(tmp_path):
    base = packaged("configs/_base_/default.yaml", tmp_path)
    assert base.config == packaged(None, tmp_path).config
    written = {key for key, source in base.provenance.items() if source.layer == "config"}
    assert {key.partition(".")[0] for key in written} == {
        "train",
        "gradient",
        "optimizer",
        "evaluation",
        "gate",
    }


PUBLISHED = ("alfworld", "docvqa", "livemathematicianbench", "officeqa", "searchqa", "spreadsheetbench")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_benchmarks_train_as_published_by_config_and_by_name(name, tmp_path):
    for config in (packaged(name, tmp_path).config, packaged(None, tmp_path, env=name).config):
        optimizer = config.optimizer
        assert config.train.strategy == "paper"
        assert (optimizer.use_slow_update, optimizer.use_meta_skill) == (True, True)
        assert not (optimizer.skip_unchanged_epochs or optimizer.salvage or config.gate.leak_guard)


@pytest.mark.parametrize("name", ["own", "evals_json", "world"])
def test_other_tasks_keep_what_was_added_to_the_published_loop(name, tmp_path):
    config = packaged(None, tmp_path, env=name).config
    assert config.optimizer.skip_unchanged_epochs and config.optimizer.salvage and config.gate.leak_guard


@pytest.mark.parametrize("name", packaged_names())
def test_every_packaged_config_loads_without_a_warning(name, tmp_path):
    assert packaged(name, tmp_path).warnings == ()


@pytest.mark.parametrize("name", ["searchqa", "configs/searchqa/default.yaml", "searchqa/default.yaml"])
def test_searchqa_is_found_under_its_public_names(name, tmp_path):
    config = packaged(name, tmp_path, split_dir="splits").config
    assert config.env.name == "searchqa"
    assert config.env.settings.split_dir == tmp_path / "splits"
    assert (config.evaluation.repeats, config.evaluation.gate_metric, config.env.workers) == (1, "hard", 24)
    assert (config.train.num_epochs, config.train.batch_size, config.optimizer.learning_rate) == (4, 40, 4)


def test_the_quickstart_is_simulated_and_needs_no_key(tmp_path):
    config = packaged("quickstart", tmp_path).config
    assert config.env.name == "world"
    assert config.env.name in benchmarks.names()
    assert {config.model.target.name, config.model.optimizer.name} == {"world"}
    assert "world" in PROVIDERS.names()


@pytest.mark.parametrize("name", benchmarks.names())
def test_every_benchmark_loads_by_name_alone(name, tmp_path):
    resolved = packaged(None, tmp_path, env=name)
    assert isinstance(resolved.config.env.settings, benchmarks.get(name).Settings)
