"""A provider from somebody else's package: installed, found by its entry point, trained with, and refused by
name when it is gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt.errors import ConfigError
from skillopt.models import PROVIDERS

SRC = Path(__file__).resolve().parents[2] / "src"
MODULE = '''
"""A provider of a package that SkillOpt has never heard of; it hands every question to the simulated world."""

from skillopt.models.providers.world import World, WorldRules


class Strange:
    """A model as the port asks for one, and no more than that."""

    def __init__(self, spec):
        self._world = World(WorldRules(noise=0.0))
        self.endpoint = "strange"
        self.fingerprint = {"provider": "strange", "model": spec.name}

    async def complete(self, request):
        return await self._world.complete(request)

    async def close(self):
        pass
'''
WORLD = (
    "env.name=world",
    "env.train_cases=24",
    "env.val_cases=20",
    "env.test_cases=20",
    "train.num_epochs=2",
    "train.batch_size=12",
)


def install(folder: Path) -> None:
    """What `pip install --target` leaves of a wheel: the module and its metadata with the entry point."""
    folder.mkdir()
    (folder / "strange_models.py").write_text(MODULE)
    metadata = folder / "strange_models-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-models\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[skillopt.models]\nstrange = strange_models:Strange\n")


def train(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """`skillopt train` with the stranger's model in both roles, as a program of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, SRC)))}
    models = ("model.target=strange:one", "model.optimizer=strange:two")
    command = [
        sys.executable,
        "-m",
        "skillopt",
        "train",
        "--cfg-options",
        *WORLD,
        *models,
        "--out_root",
        "run",
        "--json",
    ]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    install(tmp_path / "site")
    return tmp_path / "site"


@pytest.mark.slow
def test_a_strangers_provider_trains_like_one_of_ours(tmp_path: Path, installed: Path) -> None:
    ran = train(tmp_path, installed)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["status"] == "finished"
    assert result["test_hard"] > result["baseline_test_hard"]
    assert "strange" in (tmp_path / "run" / "settings.json").read_text()


@pytest.mark.slow
def test_without_the_package_its_name_is_unknown_and_nothing_is_spent(tmp_path: Path) -> None:
    ran = train(tmp_path)
    assert ran.returncode == 2
    assert "strange" in ran.stderr
    assert not (tmp_path / "run").exists()


def test_a_package_s_provider_with_the_name_of_one_of_ours_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site")
    (tmp_path / "site/strange_models-1.0.dist-info/entry_points.txt").write_text(
        "[skillopt.models]\ngemini = strange_models:Strange\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ConfigError, match="named 'gemini': ours, and that of strange_models:Strange"):
        PROVIDERS.get("gemini")
    assert PROVIDERS.get("qwen") is not None
