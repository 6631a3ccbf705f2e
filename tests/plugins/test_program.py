"""How the installed program is called from elsewhere."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from plugins._home import KIT, actions, place
from skillopt.changes.actions import OwnFile
from skillopt.plugins.kit import Program, by_name, this_program


def test_the_script_beside_the_interpreter_is_called_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "skillopt").touch()
    (tmp_path / "skillopt.exe").touch()
    assert this_program(tmp_path / "python", [], windows=False, version=(3, 10)).argv == (
        str(tmp_path / "skillopt"),
    )
    assert this_program(tmp_path / "python.exe", [], windows=True, version=(3, 12)).argv == (
        str(tmp_path / "skillopt.exe"),
    )
    user = tmp_path / "user"
    user.mkdir()
    assert this_program(user / "python", [tmp_path], windows=False, version=(3, 10)).argv == (
        str(tmp_path / "skillopt"),
    )


def test_without_a_script_the_module_is_called_and_the_working_directory_is_no_place_for_modules(
    tmp_path: Path,
) -> None:
    assert this_program(tmp_path / "python", [], windows=False, version=(3, 12)).argv[1:] == (
        "-P",
        "-m",
        "skillopt",
    )
    assert this_program(tmp_path / "python", [], windows=False, version=(3, 10)).argv[1:] == (
        "-m",
        "skillopt",
    )


@pytest.mark.parametrize(
    "path",
    [
        "/plain/skillopt",
        "/with space/ünï/skillopt",
        '/quote\'s and "more"/skillopt',
        "/dollar $HOME/`x`/skillopt",
    ],
)
def test_a_shell_gets_exactly_the_words(path: str) -> None:
    line = Program(argv=(path,)).line("plugin", "install", "claude-code")
    assert shlex.split(line) == [path, "plugin", "install", "claude-code"]
    echoed = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    assert echoed.splitlines() == [path, "plugin", "install", "claude-code"]


def test_windows_shells_get_their_own_quotes(tmp_path: Path) -> None:
    program = Program(argv=("C:\\Program Files\\it's\\skillopt.exe",), windows=True)
    assert program.line("mcp") == '"C:\\Program Files\\it\'s\\skillopt.exe" mcp'
    assert program.powershell("mcp") == "& 'C:\\Program Files\\it''s\\skillopt.exe' 'mcp'"
    made = actions("claude-code", place(tmp_path, windows=True), replace(KIT, program=program))
    [hooks] = [
        action.text for action in made if isinstance(action, OwnFile) and action.path.endswith("hooks.json")
    ]
    assert '"shell": "powershell"' in hooks
    assert "& 'C:\\\\Program Files" in hooks


def test_shared_files_call_the_program_by_its_name() -> None:
    assert by_name(windows=False).line("mcp") == "skillopt mcp"
