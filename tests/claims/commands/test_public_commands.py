"""Every command line of the public project, run here: the rows of docs/public-commands.md, one by one.

A row's first cell is the public command, its second what is run for it here, its third what comes out. A
command is started in this process by the door that it names: a script, a module or an installed program.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from _needs import needs_bubblewrap
from claims._product import LoopbackProvider
from claims.commands._provider import answer, write_splits
from night._nights import Person

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "public-commands.md"
ROWS = {
    public: (command, int(code), said)
    for public, command, code, said in re.findall(
        r"^\| `([^`]+)` \| `([^`]+)` \| (\d+): .*?`([^`]+)`.* \|$", PAGE.read_text(encoding="utf-8"), re.M
    )
}
SMALL = ["--num_epochs", "1", "--batch_size", "6", "--optimizer_model", "opt", "--target_model", "tgt"]
HEAVY = ("skillopt-train", "scripts/train.py", "skillopt.run", "run_searchqa", "run_experiment", "plugin")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """A person's project with a copy of the public data layout, a provider, and a crontab of its own."""
    person = Person(tmp_path / "home", now=datetime.now(timezone.utc)).write()
    monkeypatch.setenv("HOME", str(person.home))
    monkeypatch.chdir(person.project)
    write_splits(person.project / "data" / "searchqa_split")
    (person.project / "best_skill.md").write_text("# Skill\n\nBe brief.\n")
    rows = [{"key": f"k{n}", "question": f"Q{n}?", "context": "C", "answers": ["A"]} for n in range(6)]
    Path("searchqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, names in {"train": ["k0", "k1"], "val": ["k2"], "test": ["k3"]}.items():
        Path("ids", split).mkdir(parents=True)
        Path("ids", split, "items.json").write_text(json.dumps([{"id": name} for name in names]))
    programs = tmp_path / "bin"
    programs.mkdir()
    table = tmp_path / "table"
    (programs / "crontab").write_text(f'#!/bin/sh\n[ "$1" = -l ] && cat {table} || cat > {table}\n')
    (programs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with LoopbackProvider.in_thread(answer) as provider:
        monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "key-of-the-test")
        Path("config.yaml").write_text(
            f"task: searchqa\nsplit_dir: data/searchqa_split\nseed_skill: best_skill.md\n"
            f"target_model: compatible:tgt@{provider.base_url}\n"
            f"optimizer_model: compatible:opt@{provider.base_url}\nepochs: 1\nbatch_size: 6\n"
        )
        yield person


def door(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """What starts the program that these words name, with their rest as its arguments."""
    if words[0] != "python":
        (program,) = entry_points(group="console_scripts", name=words[0])
        monkeypatch.setattr(sys, "argv", words)
        return program.load()
    if words[1] == "-m":
        monkeypatch.setattr(sys, "argv", words[2:])
        monkeypatch.delitem(sys.modules, f"{words[2]}.__main__", raising=False)
        return lambda: runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    script = ROOT / words[1]
    monkeypatch.setattr(sys, "argv", [str(script), *words[2:]])
    monkeypatch.syspath_prepend(script.parent)
    return lambda: runpy.run_path(str(script), run_name="__main__")


def arguments(words: list[str]) -> list[str]:
    """What a test adds to a command line: a provider on this machine and few tasks."""
    if any("train" in word or "eval" in word for word in words[:2]):
        here = ["--backend", "openai_compatible"]
        return here + (["--target_model", "tgt"] if "eval" in " ".join(words[:2]) else SMALL)
    return ["--plain"] if words[2:4] == ["skillopt_sleep", "run"] else []


def look_and_leave(port: int) -> None:
    """Ask for the page until it is there, then end the server."""
    for _ in range(600):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            break
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_page_has_every_command() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(ROWS) == len(lines) >= 30, "a row that the pattern does not read is not run"


def marks(public: str) -> list[pytest.MarkDecorator]:
    """Those of the test of a row."""
    heavy = [pytest.mark.slow] if any(one in public for one in HEAVY) else []
    return [*heavy, needs_bubblewrap] if "spreadsheetbench" in public else heavy


@pytest.mark.parametrize("public", [pytest.param(public, marks=marks(public)) for public in ROWS])
def test_a_public_command_does_what_its_row_says(
    public: str, place: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, code, said = ROWS[public]
    words = shlex.split(command)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    if "skillopt_webui.app" in words:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words += ["--port", str(port), "--no-open"]
        threading.Thread(target=look_and_leave, args=[port]).start()
    start = door(words + arguments(words), monkeypatch)
    with pytest.raises(SystemExit) as ended:
        start()
        raise SystemExit(0)  # a server returns
    out = "".join(capsys.readouterr())
    assert (ended.value.code or 0) == code, out
    assert "Traceback" not in out
    assert said in out + "".join(str(path) for path in place.project.rglob("*")), out
