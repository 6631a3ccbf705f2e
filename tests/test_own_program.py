"""Our own programs as children: the folder they work in is somebody's project, and nothing in it may run in
place of a library.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import skillopt
from skillopt.process import minimal_env, own_program, run_process

FOREIGN = ("typer", "rich", "skillopt", "json", "pydantic")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FOREIGN:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('foreign code ran')\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("module", ["skillopt.cli", "skillopt_sleep.__main__"])
async def test_our_own_program_imports_nothing_from_the_folder_it_works_in(
    project: Path, module: str
) -> None:
    env = minimal_env({"PYTHONPATH": str(Path(skillopt.__file__).parents[1])})
    done = await run_process([*own_program(module), "--help"], input=None, env=env, cwd=project, timeout=60)
    assert done.code == 0 and b"Usage" in done.stdout and b"foreign" not in done.stderr


async def test_python_dash_m_would(project: Path) -> None:
    done = await run_process(
        [sys.executable, "-m", "skillopt", "--help"], input=None, env=minimal_env(), cwd=project, timeout=60
    )
    assert b"foreign code ran" in done.stderr
