"""A benchmark from somebody else's package: installed, listed, and trained on like one of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt.executors.in_process import InProcess
from skillopt.tasks.benchmark import as_benchmark
from skillopt.tasks.rollout import Score
from skillopt.tasks.task import Task

SRC = Path(__file__).resolve().parents[2] / "src"
MODULE = '''"""Parcels: cases of the simulated world, as a stranger would pack them."""

from pydantic import BaseModel, ConfigDict, Field

from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.tasks.rollout import Score
from skillopt.tasks.task import Task


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    parcels: int = Field(20, ge=1, description="Parcels in each split.")


class Parcels:
    name = "parcels"
    prompts = {"rollout": "You sort parcels.\\n\\n{skill}"}
    seed_skill = SEED_SKILL
    scorer_version = "parcels-1"
    graded = False

    def __init__(self, parcels):
        self._parcels = parcels

    def tasks(self, split):
        first = {"train": 0, "val": 100, "test": 200}[split]
        cases = [f"W55{first + n:04d}" for n in range(self._parcels)]
        return [Task(id=c, prompt=f"Parcel {c}, {family_of(c)}. Its code?", reference=code_of(c)) for c in cases]

    def open(self, task):
        return None

    async def score(self, task, trajectory):
        right = float(task.reference in trajectory.answer)
        return Score(hard=right, soft=right)


class Plugin:
    Settings = Settings
    defaults = {"evaluation.repeats": 1}

    def __call__(self, settings):
        return Parcels(settings.parcels)


PLUGIN = Plugin()
'''


def skillopt(folder: Path, *arguments: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, SRC)))}
    command = [sys.executable, "-m", "skillopt", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What `pip install --target` leaves of a wheel: the module and its metadata with the entry point."""
    site = tmp_path / "site"
    (site / "strange_parcels-1.0.dist-info").mkdir(parents=True)
    (site / "strange_parcels.py").write_text(MODULE)
    (site / "strange_parcels-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: strange-parcels\nVersion: 1.0\n"
    )
    (site / "strange_parcels-1.0.dist-info" / "entry_points.txt").write_text(
        "[skillopt.benchmarks]\nparcels = strange_parcels:PLUGIN\n"
    )
    return site


def test_it_is_written_in_under_sixty_lines() -> None:
    assert len(MODULE.splitlines()) < 60


@pytest.mark.slow
def test_it_is_listed_among_ours(tmp_path: Path, installed: Path) -> None:
    ran = skillopt(tmp_path, "config", "list", "benchmarks", "--json", path=(installed,))
    assert ran.returncode == 0, ran.stderr
    assert {"parcels", "searchqa", "docvqa"} <= json.loads(ran.stdout)["benchmarks"].keys()
    assert (
        "parcels"
        not in json.loads(skillopt(tmp_path, "config", "list", "benchmarks", "--json").stdout)["benchmarks"]
    )


@pytest.mark.slow
def test_it_trains_with_its_own_settings(tmp_path: Path, installed: Path) -> None:
    settings = (
        "--env",
        "parcels",
        "--parcels",
        "30",
        "--target",
        "world",
        "--batch_size",
        "15",
        "--num_epochs",
        "2",
    )
    ran = skillopt(tmp_path, "train", *settings, "--out_root", "run", "--json", path=(installed,))
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["status"] == "finished"
    assert result["test_hard"] > result["baseline_test_hard"]


@pytest.mark.slow
def test_a_mistyped_setting_of_it_names_the_near_miss(tmp_path: Path, installed: Path) -> None:
    ran = skillopt(
        tmp_path,
        "train",
        "--env",
        "parcels",
        "--target",
        "world",
        "--cfg-options",
        "env.parcel=3",
        path=(installed,),
    )
    assert ran.returncode == 2
    assert "env.parcels" in ran.stderr


async def test_an_object_of_another_class_gets_defaults_for_all_that_it_lacks() -> None:
    task = Task(id="t", prompt="p", reference=["Paris"])

    class Plain:
        name, prompts, seed_skill, scorer_version, graded = "plain", {"rollout": "{skill}"}, "", "1", False
        bad_rows = ("line 1: no task",)

        def tasks(self, split: str) -> list[Task]:
            return [task]

        async def score(self, task: Task, trajectory: object) -> Score:
            return Score(hard=1.0, soft=0.5)

    made = as_benchmark(Plain())
    assert as_benchmark(made) is made
    assert (made.name, made.tasks("val"), made.bad_rows) == ("plain", [task], ("line 1: no task",))
    assert (made.scoring_rule, made.own_scorer, made.undivided, made.wants_judge) == ("", False, False, False)
    assert made.open(task) is None
    assert made.programs_in(InProcess()) is made
    assert made.protected(task).references == ("Paris",)
    assert (await made.score_with(None, task, None)).soft == 0.5  # type: ignore[arg-type]  # nobody asks them


@pytest.mark.slow
def test_a_package_that_cannot_be_loaded_stops_nobody(tmp_path: Path, installed: Path) -> None:
    (installed / "strange_parcels.py").write_text("raise RuntimeError('broken')\n")
    ran = skillopt(tmp_path, "train", "quickstart", "--num_epoch", "1", path=(installed,))
    assert (ran.returncode, "Did you mean '--num_epochs'?" in ran.stderr) == (2, True), ran.stderr
