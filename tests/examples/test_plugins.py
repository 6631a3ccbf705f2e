"""Packages of strangers: built, installed into a fresh environment, listed, and used through training to the sealed
test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"
SRC = Path(__file__).parents[2] / "src"
FOLDERS = sorted(path.name for path in PLUGINS.iterdir() if path.is_dir())
KIND = {
    "acme": "models",
    "patient": "harnesses",
    "parcels": "benchmarks",
    "diary": "trackers",
    "loose": "scorers",
    "margin": "gate",
    "shears": "proposers",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has SkillOpt, what it needs, and the packages; no network is used."""
    place = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=60)
    found = place / "bin" / "python"
    site = next((place / "lib").glob("python*")) / "site-packages"
    (site / "beside.pth").write_text(f"{SRC}\n{sysconfig.get_paths()['purelib']}\n")
    folders = [str(PLUGINS / name) for name in FOLDERS]
    install = ["install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet", *folders]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(found), *install], check=True, timeout=110)
    return found


def skillopt(python: Path, folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environ
    command = [str(python), "-m", "skillopt", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_is_at_most_thirty_lines_of_public_names(folder: str) -> None:
    (file,) = (PLUGINS / folder).glob("*.py")
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30
    assert not re.search(r"(?:from|import)\s+skillopt\S*\._|import _", text)


def test_they_are_listed_with_their_own_words(python: Path, tmp_path: Path) -> None:
    ran = skillopt(python, tmp_path, "config", "list", "--json")
    assert ran.returncode == 0, ran.stderr
    listed = json.loads(ran.stdout)
    assert set(KIND) == set(FOLDERS)
    for name, kind in KIND.items():
        assert listed[kind][name] and "package" not in listed[kind][name], name
    assert listed["gate"]["margin"].startswith("Better by a row or more")
    assert listed["benchmarks"]["parcels"].startswith("Parcels: cases of the simulated world")


def test_five_of_them_train_together_to_the_sealed_test(python: Path, tmp_path: Path) -> None:
    settings = ("--env", "parcels", "--parcels", "30", "--batch_size", "15", "--num_epochs", "2")
    models = ("--target", "patient/acme:simulated", "--optimizer", "acme:simulated")
    options = (
        "model.target.options.tier=gold",
        "gate.policy=margin",
        "tracking.use=diary",
        "tracking.diary.title=Tonight",
    )
    command = ("train", *settings, *models, "--out_root", "run", "--json", "--cfg-options", *options)
    ran = skillopt(python, tmp_path, *command, ACME_API_KEY="acme-key-123456")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["status"] == "finished"
    assert result["test_hard"] > result["baseline_test_hard"]
    told = (tmp_path / "run" / "tracking" / "diary" / "diary.txt").read_text(encoding="utf-8")
    assert told.startswith("Tonight: run\n")
    assert "accept" in told
    config = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    assert config["model"]["target"]["options"] == {"tier": "gold"}
    assert "acme-key-123456" not in json.dumps(config)
    spending = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["spending"]
    assert "usd" in json.dumps(spending) and "1 million" not in json.dumps(spending)
    again = skillopt(python, tmp_path, *command, ACME_API_KEY="acme-key-123456")
    assert json.loads(again.stdout)["test_hard"] == result["test_hard"]


def test_a_proposer_of_a_package_takes_the_place_of_the_analysts(python: Path, tmp_path: Path) -> None:
    harmful = "- Shorten every name to its initials."
    (tmp_path / "seed.md").write_text(f"# Rules\n\n- Read the whole case before answering.\n{harmful}\n")
    settings = (
        "--env",
        "parcels",
        "--parcels",
        "60",
        "--skill_init",
        "seed.md",
        "--out_root",
        "run",
        "--json",
    )
    options = ("train.strategy=proof", "train.proposer=shears", "train.num_epochs=1")
    models = ("--target", "world", "--optimizer", "world")
    ran = skillopt(python, tmp_path, "train", *settings, *models, "--cfg-options", *options)
    assert ran.returncode == 0, ran.stderr
    best = (tmp_path / "run" / "best_skill.md").read_text(encoding="utf-8")
    assert harmful not in best and "Read the whole case" in best
    (step,) = json.loads((tmp_path / "run" / "history.json").read_text(encoding="utf-8"))
    assert step["action"] == "accept_new_best" and step["edit_states"]["applied"] == 1
    assert "analyst" not in step["tokens"]


def test_a_scorer_of_a_package_scores_your_own_tasks(python: Path, tmp_path: Path) -> None:
    code = (
        "import json; from skillopt.models.world.rules import code_of, family_of\n"
        "for n in range(60):\n    c = f'W77{n:04d}'\n"
        "    print(json.dumps({'id': c, 'prompt': f'{c}, {family_of(c)}?', 'reference': code_of(c).upper() + '!'}))"
    )
    rows = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True, timeout=60)
    (tmp_path / "tasks.jsonl").write_text(rows.stdout)
    command = (
        "train",
        "--env",
        "own",
        "--data_path",
        "tasks.jsonl",
        "--scorer",
        "loose",
        "--out_root",
        "run",
    )
    more = ("--target", "acme:simulated", "--optimizer", "acme:simulated", "--batch_size", "12", "--json")
    ran = skillopt(python, tmp_path, *command, *more, ACME_API_KEY="acme-key-123456")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["test_hard"] > json.loads(ran.stdout)["baseline_test_hard"]


SLIPS = [
    (("--target", "acme:one"), "set ACME_API_KEY or model.target.api_key"),
    (("--target", "acme"), "write 'acme:MODEL'"),
    (
        ("--target", "acme:one", "--cfg-options", "model.target.options.tier=glod"),
        "is not one of silver, gold. Did you mean 'gold'?",
    ),
    (
        ("--target", "world", "--cfg-options", "model.target.options.tier=gold"),
        "model.target.options.tier (cfg-options model.target.options.tier) is an option of acme, and model.target is 'world'",
    ),
    (("--target", "world", "--cfg-options", "gate.policy=margn"), "Did you mean 'margin'?"),
    (("--target", "world", "--cfg-options", "train.proposer=shear"), "Did you mean 'shears'?"),
    (
        ("--target", "world", "--cfg-options", "tracking.diary.titel=x"),
        "Did you mean 'tracking.diary.title'?",
    ),
]
ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from skillopt.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, told.getvalue()]))
"""


def test_a_slip_is_said_with_the_packages_own_names(python: Path, tmp_path: Path) -> None:
    common = ["train", "--env", "parcels", "--optimizer", "world"]
    commands = json.dumps([[*common, *arguments] for arguments, _ in SLIPS])
    ran = subprocess.run(
        [str(python), "-c", ONE_AFTER_THE_OTHER, commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    for (code, told), (_, said) in zip(answers, SLIPS, strict=True):
        assert code == 2 and said in told, told
    assert not (tmp_path / "outputs").exists()


def test_its_price_is_used(python: Path, tmp_path: Path) -> None:
    models = ("--target", "acme:simulated", "--optimizer", "acme:simulated")
    ran = skillopt(python, tmp_path, "estimate", "--env", "parcels", *models, "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["total"]["usd"]["typical"] > 0
    assert found["prices"]["target"].startswith("its provider")
