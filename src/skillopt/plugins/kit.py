"""The shipped texts as files of an agent, filled in from code, and how the installed SkillOpt is called."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skillopt.changes.actions import OwnFile, TextLines
from skillopt.skill.paths import SKILL_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """SkillOpt as a command with its first words, and whether it will be called on Windows."""

    argv: tuple[str, ...]
    windows: bool = False

    def line(self, *words: str) -> str:
        """A command for the usual shell: sh, or cmd on Windows."""
        join = subprocess.list2cmdline if self.windows else shlex.join
        return join([*self.argv, *words])

    def powershell(self, *words: str) -> str:
        """A command for PowerShell, where a quoted program has to be called by `&`."""
        return " ".join(["&", *("'" + word.replace("'", "''") + "'" for word in (*self.argv, *words))])


def this_program(
    executable: Path, scripts: Iterable[Path], *, windows: bool, version: tuple[int, ...]
) -> Program:
    """The program that runs now, by its whole path: it works from any folder and whatever is on PATH.

    The script that pip, pipx or uv put beside the interpreter comes first. `python -m skillopt` would look
    into the working directory for its modules before anywhere else, which a foreign repository must not
    decide; `-P` forbids that from Python 3.11 on.
    """
    name = "skillopt.exe" if windows else "skillopt"
    for folder in (executable.parent, *scripts):
        if (folder / name).is_file():
            return Program(argv=(str(folder / name),), windows=windows)
    safe = ("-P",) if version >= (3, 11) else ()
    return Program(argv=(str(executable), *safe, "-m", "skillopt"), windows=windows)


def by_name(*, windows: bool) -> Program:
    """Whatever `skillopt` is on PATH where it is called: for files that several machines share."""
    return Program(argv=("skillopt",), windows=windows)


SKILL = "skillopt"
"""The name of the skill, of its folder, of the MCP server and of our entries."""
SHARED = Path(__file__).parent / "texts"
"""The texts that several agents get."""
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option or argument of a command, as its help has it."""

    name: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the command line, with the options that are its own."""

    name: str
    help: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of the MCP server."""

    name: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The facts that texts are filled in with, and the texts."""

    version: str
    program: Program
    commands: tuple[Command, ...] = ()
    tools: tuple[ServerTool, ...] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    """Further values of one agent's texts."""

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Every placeholder by name."""
        command, *first = self.program.argv
        return {
            "version": self.version,
            "skillopt": self.program.line(),
            "command": command,
            "server_args": [*first, "mcp"],
            "commands": "\n".join(_command_lines(self.commands)),
            "tools": "\n".join(f"- `{tool.name}`: {_one_line(tool.description)}" for tool in self.tools)
            or "This installation has no MCP server; use the command line.",
            **self.own,
        }

    @property
    def server(self) -> dict[str, Any]:
        """The MCP server as most agents want it told."""
        return {"command": self.values["command"], "args": self.values["server_args"]}

    def text(self, path: Path) -> str:
        """A shipped text, filled in. In JSON a string that is one placeholder becomes its value."""
        raw = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.dumps(self._filled(json.loads(raw)), indent=2, ensure_ascii=False) + "\n"
        return self._filled_text(raw)

    def file(self, path: Path, text: Path) -> OwnFile:
        """A shipped text as a whole file of ours."""
        return OwnFile(path=str(path), text=self.text(text))

    def skill(self, folder: Path) -> list[OwnFile]:
        """The shipped skill in a folder of skills. SKILL.md is last, so that no agent finds half a skill."""
        shipped = (path.relative_to(SHARED / "skill") for path in (SHARED / "skill").rglob("*.md"))
        names = sorted(shipped, key=lambda name: (name == Path(SKILL_FILE), name))
        return [self.file(folder / SKILL / name, SHARED / "skill" / name) for name in names]

    def command_files(self, folder: Path, names: Iterable[str]) -> list[OwnFile]:
        """The shipped commands of these names in a folder of commands."""
        return [self.file(folder / f"{name}.md", SHARED / "commands" / f"{name}.md") for name in names]

    def snippet(self, path: Path) -> TextLines:
        """The few lines about SkillOpt in a Markdown file that an agent reads into every conversation."""
        content = self.text(SHARED / "snippet.md").strip("\n")
        return TextLines(path=str(path), content=content, style="markdown")

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if not isinstance(value, str):
            return value
        whole = _PLACEHOLDER.fullmatch(value)
        return self.values[whole[1]] if whole else self._filled_text(value)

    def _filled_text(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: str(self.values[found[1]]), text)


def _command_lines(commands: tuple[Command, ...]) -> list[str]:
    lines: list[str] = []
    for command in commands:
        lines += ["", f"## skillopt {command.name}", "", command.help]
        if command.options:
            lines += ["", *(f"- `{option.name}`: {_one_line(option.help)}" for option in command.options)]
    return lines[1:]


def _one_line(text: str) -> str:
    return " ".join(text.split())
