"""What `pip install skillopt-trainer` gives a user: built, installed into a clean environment, and run from another
folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, machine_env: Mapping[str, str]) -> Path:
    out = tmp_path_factory.mktemp("dist")
    isolation = ["--no-isolation"] if find_spec("hatchling") else []
    _run(
        [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(out), str(ROOT)],
        cwd=out,
        env=_tool_env(machine_env),
    )
    [built] = out.glob("skillopt_trainer-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory, machine_env: Mapping[str, str]) -> Path:
    """The folder of programs of an environment that holds the wheel, its dependencies and nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    env = _tool_env(machine_env)
    _run([sys.executable, "-m", "venv", str(folder)], cwd=folder.parent, env=env)
    programs = folder / "bin"
    _run(
        [str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)], cwd=folder.parent, env=env
    )
    return programs


def test_the_wheel_holds_every_file_of_the_source_tree(wheel: Path) -> None:
    sources = (
        path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    missing = {path.relative_to(ROOT / "src").as_posix() for path in sources} - set(
        zipfile.ZipFile(wheel).namelist()
    )
    assert not missing


def test_the_wheel_holds_the_plugins(wheel: Path) -> None:
    plugins = [
        path for path in (ROOT / "plugins").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    missing = {f"skillopt/{path.relative_to(ROOT).as_posix()}" for path in plugins} - set(
        zipfile.ZipFile(wheel).namelist()
    )
    assert plugins and not missing


def test_the_wheel_holds_our_packages_and_nothing_of_the_tests(wheel: Path) -> None:
    held = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in held if not name.endswith(".dist-info")} == {
        "skillopt",
        "skillopt_sleep",
        "skillopt_webui",
    }


def test_the_wheel_carries_its_licence_and_says_it_is_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "skillopt/py.typed" in names
    assert [name for name in names if name.endswith("/licenses/LICENSE")]


def test_every_console_script_answers_for_help(wheel: Path, installed: Path, tmp_path: Path) -> None:
    scripts = _console_scripts(wheel)
    assert {"skillopt", "skillopt-train", "skillopt-eval"} <= set(scripts)
    for script in scripts:
        assert "Usage" in _run([str(installed / script), "--help"], cwd=tmp_path, env=_user_env())


def test_list_names_the_packaged_plugins(installed: Path, tmp_path: Path) -> None:
    listed = _run([str(installed / "skillopt"), "config", "list"], cwd=tmp_path, env=_user_env())
    assert all(name in listed for name in ("searchqa", "world", "own", "openai", "anthropic"))


def test_the_demo_trains_from_another_folder(installed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = _run(
        [str(installed / "skillopt"), "demo", "--quiet", "--json", "--out", str(out)],
        cwd=tmp_path,
        env=_user_env(),
    )
    assert _documents(said)
    assert "simulated" in said.lower()
    assert (out / "best_skill.md").read_text(encoding="utf-8").strip()


def _console_scripts(wheel: Path) -> list[str]:
    archive = zipfile.ZipFile(wheel)
    [entry_points] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    parser = ConfigParser()
    parser.read_string(archive.read(entry_points).decode())
    return list(parser["console_scripts"])


def _documents(text: str) -> list[Any]:
    """The JSON documents of an output, one or one after the other; anything else between them is an error."""
    found, rest = [], text.strip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        found.append(document)
        rest = rest[end:].lstrip()
    return found


def _tool_env(machine_env: Mapping[str, str]) -> dict[str, str]:
    """For pip and build: the real home with its cache and index settings."""
    return _without_source_tree(machine_env)


def _user_env() -> dict[str, str]:
    """For our programs: no credentials, an empty home."""
    return _without_source_tree(os.environ)


def _without_source_tree(env: Mapping[str, str]) -> dict[str, str]:
    # PYTHONPATH=src would make the wheel's programs import the checkout.
    return {
        name: value for name, value in env.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }


def _run(command: list[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, (
        f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout
