"""Notices of a proposal: each only where it was asked for, and none of them fails a night."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from _needs import needs_git
from night._nights import LEARNT, RULE, SKILL, Person, clock, scripted
from skillopt_sleep import NightContext, NightResult, Roles, run_night
from skillopt_sleep.notices import banner, desktop_command, give_notices


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def ended(context: NightContext) -> NightResult:
    async with LoopbackProvider(scripted(RULE)) as provider:
        model = f"compatible:m@{provider.base_url}"
        return await run_night(context, Roles(target=model, optimizer=model), environ={}, now=clock)


@pytest.mark.slow
@needs_git
async def test_a_proposal_is_told_in_the_ways_that_were_asked_for_and_in_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path / "home").write(sessions=12)
    for words in ("init -q -b main", "config user.name ann", "config user.email ann@example.org", "add ."):
        git(person.project, *words.split())
    git(person.project, "commit", "-qm", "start")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "notify-send").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/shown\n')
    (tools / "notify-send").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr("sys.platform", "linux")
    night = await ended(person.around(llm_mine=True))
    assert give_notices(person.around(), night, {}) == [] and banner(person.around(), clock) == ""
    every = person.around(notices=["banner", "desktop", "branch"])
    assert "proposes changes to brief-writer" in banner(every, clock)
    shown, branched = give_notices(every, night, {})
    assert shown == "A desktop notification was shown." and "brief-writer" in (tmp_path / "shown").read_text()
    assert night.proposal is not None and f"Branch skillopt/{night.proposal.id} holds it" in branched
    inside = person.skill.relative_to(person.project).as_posix()
    assert git(person.project, "show", f"skillopt/{night.proposal.id}:{inside}") + "\n" == LEARNT
    assert git(person.project, "status", "--short") == "" and person.skill.read_text() == SKILL
    again = give_notices(every, night, {})[1]
    assert again.startswith("No branch: "), "one that is there is never moved"
    person.around().adoption(clock).adopt()
    assert banner(every, clock) == "", "nothing waits any more"


async def test_a_notice_that_cannot_be_given_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(tmp_path / "home").write(sessions=12)
    night = await ended(person.around(llm_mine=True))
    monkeypatch.setenv("PATH", "/nowhere")
    told = give_notices(person.around(notices=["desktop", "branch"]), night, {})
    assert [line.partition(":")[0] for line in told] == ["No desktop notification", "No branch"]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_what_is_shown_is_an_argument_and_no_script(platform: str) -> None:
    evil = '"; rm -rf / #'
    assert evil in desktop_command(platform, evil)


@pytest.mark.slow
@pytest.mark.parametrize(
    "told", [b"", b"\xff\xfe", b"[1]", b"[" * 100_000, b'{"cwd": {"a": 1}}', b'{"cwd": "/gone"}']
)
def test_the_hook_ends_with_0_whatever_it_is_told(tmp_path: Path, told: bytes) -> None:
    (tmp_path / ".skillopt-sleep").mkdir()
    (tmp_path / ".skillopt-sleep" / "config.yaml").write_text("notices: [banner]\n")
    env = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "skillopt", "plugin", "session-start"]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, input=told, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), json.dumps(
        told.decode("latin-1")[:50]
    )
