"""What this program keeps in the person's own folder is the person's alone, whatever the umask allows others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command, run
from night._nights import RULE, Person, scripted
from skillopt.files import lock_privately, write_bytes

STATE = ".skillopt-sleep"


@pytest.fixture(params=[0o000, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def open_to_others(state: Path) -> list[str]:
    """Folders and files that another account may read or write."""
    every = [state, *state.rglob("*")]
    return [str(one) for one in every if not one.is_symlink() and stat.S_IMODE(one.stat().st_mode) & 0o077]


@pytest.mark.usefixtures("umask")
def test_what_is_noted_of_a_run_and_kept_of_an_adoption_is_for_the_person_alone(
    skillopt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    skill = tmp_path / "skill.md"
    skill.write_text("# Cases\n")
    words = ("--quiet", "--out_root", "mine", "--skill_init", str(skill), "--cfg-options", *SMALL)
    assert run("train quickstart", *words).code == 0
    assert skillopt("adopt mine --yes --force").code == 0
    assert list((home / STATE).rglob("journal.json")) and open_to_others(home / STATE) == []
    assert stat.S_IMODE(skill.stat().st_mode) & 0o044  # a file of the person stays as the umask made it


@pytest.mark.usefixtures("umask")
def test_what_a_night_keeps_is_for_the_person_alone(person: Person) -> None:
    state = person.home / STATE
    before = {state, *state.rglob("*")}
    for one in before:
        one.chmod(0o700 if one.is_dir() else 0o600)
    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        ran = run("sleep run --model", f"compatible:m@{provider.base_url}", "--quiet", "--source", "jsonl")
    assert ran.code == 0, ran.err
    assert len({*state.rglob("*")} - before) > 5
    nights = [one for one in state.rglob("*") if (one / "run.db").is_file()]
    others = [
        one for one in open_to_others(state) if not any(Path(one).is_relative_to(run) for run in nights)
    ]
    assert others == []


@pytest.mark.usefixtures("umask")
def test_every_way_to_write_there_makes_private_folders_and_files(tmp_path: Path) -> None:
    state = tmp_path / "home" / STATE
    state.parent.mkdir()
    write_bytes(state / "a/b/note.json", b"{}", mode=0o600)
    with lock_privately(state / "c/d/lock"):
        pass
    assert open_to_others(state) == []
