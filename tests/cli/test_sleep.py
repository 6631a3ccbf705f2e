"""`skillopt sleep` as a person uses it: in a home of their own, from the evening to the morning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SRC, Ran, run
from night._nights import LEARNT, RULE, SKILL, Person, scripted
from night._reader import keep_readings
from night._transcripts import Talk, claude_code
from night._windows import split


@pytest.fixture
def model() -> Iterator[str]:
    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        yield f"compatible:m@{provider.base_url}"


def sleep(*arguments: str) -> Ran:
    return run("sleep", *arguments)


def program(person: Person, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The door, as a program of its own."""
    around = {**os.environ, "PYTHONPATH": str(SRC), "HOME": str(person.home), **env}
    argv = [sys.executable, "-m", "skillopt_sleep", *arguments]
    return subprocess.run(argv, cwd=person.project, env=around, capture_output=True, text=True, timeout=60)


def test_harvest_says_what_was_read_kept_and_dropped(person: Person) -> None:
    talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    talks.write_text(talks.read_text() + "not json\n")
    told = json.loads(sleep("harvest", "--json").out)
    assert (told["read"], told["kept"], told["of_project"], told["sources"]) == (20, 20, 20, {"jsonl": 20})
    assert sum(told["skipped_records"].values()) == 1 and told["skills"] == {"brief-writer": 20}
    said = sleep("harvest").out
    assert said.startswith("20 sessions read since ") and "records passed over: " in said


def test_without_a_source_the_person_is_told_what_was_read_beside_it(person: Person) -> None:
    assert "were read" not in sleep("harvest").out
    claude_code(person.home, Talk(project=str(person.project)))
    said = "The transcripts of claude_code, jsonl were read; `--source claude_code` reads those of one."
    assert said in sleep("harvest").out
    assert "were read" not in sleep("harvest", "--source", "jsonl").out


def test_harvest_reads_since_when_it_is_told(person: Person) -> None:
    assert json.loads(sleep("harvest", "--json", "--since", "31h").out)["kept"] == 5
    assert json.loads(sleep("harvest", "--json", "--lookback_hours", "31").out)["kept"] == 5
    for text in ("soon", "²d", "99999999999d", "999999999d", ""):
        ran = sleep("harvest", "--since", text)
        assert ran.code == 2 and "is no time" in ran.err


def test_harvest_of_another_project_keeps_none_of_this_one(person: Person) -> None:
    (person.home / "other").mkdir()
    told = json.loads(sleep("harvest", "--json", "--project", str(person.home / "other")).out)
    assert (told["kept"], told["of_project"]) == (20, 0)


def test_a_source_that_does_not_exist_is_named_with_the_near_miss(person: Person) -> None:
    ran = sleep("harvest", "--source", "codx")
    assert ran.code == 2 and "Did you mean 'codex'?" in ran.err


@pytest.mark.slow
def test_a_window_is_the_same_in_tokyo(person: Person) -> None:
    told = program(person, "harvest", "--json", "--lookback-hours", "31", TZ="Asia/Tokyo")
    assert json.loads(told.stdout)["kept"] == 5


@pytest.mark.slow
def test_dry_run_without_a_model_names_tasks_cost_and_remedy_and_writes_nothing(person: Person) -> None:
    before = sorted(person.home.rglob("*"))
    ran = sleep("dry-run")
    assert ran.code == 0 and "No model is configured, so nothing was sent" in ran.out
    assert "a model would read 20 sessions" in ran.out and "unread: no model has read it yet 20" in ran.out
    assert "likely cost: " in ran.out and sorted(person.home.rglob("*")) == before
    keep_readings(person.around())
    before = sorted(person.home.rglob("*"))
    ran = sleep("dry-run")
    assert (
        "Write a brief on whether a bakery should open on Sundays." in ran.out
        and "section_present=Key Risks" in ran.out
    )
    assert "likely cost: " in ran.out and sorted(person.home.rglob("*")) == before
    told = json.loads(sleep("dry-run", "--json").out)
    assert (told["standing"], len(told["tasks"]), [target["name"] for target in told["targets"]]) == (
        "unverified",  # nobody judged by a rubric yet
        20,
        ["brief-writer"],
    )


def test_a_night_without_a_model_shows_what_it_found_and_fails_with_the_remedy(person: Person) -> None:
    ran = sleep("run")
    assert ran.code == 2 and "a model would read 20 sessions" in ran.out and "--model handoff" in ran.err
    assert "No model is configured" not in ran.out, "it is told once"
    assert not (person.home / ".skillopt-sleep" / "projects").exists()


@pytest.mark.slow
def test_from_the_night_to_the_morning_and_back(person: Person, model: str) -> None:
    assert "No proposal is staged." in sleep("status").out
    ran = sleep("run", "--model", model, "--plain")
    assert ran.code == 0, ran.err
    assert f"night: reading 20 of 20 sessions with {model}" in ran.err and "can be measured" in ran.err
    assert "brief-writer: held-out 0.000 to 1.000, accept" in ran.out and "skillopt sleep adopt" in ran.out
    assert person.skill.read_text() == SKILL
    finding = "real: better on 8 of 8 held-out tasks (p = 0.0039)"
    assert f"accept; {finding}" in ran.out
    shown = sleep("diff").out
    assert shown.startswith(f"# brief-writer: {finding}\n") and f"+{RULE}" in shown
    stands = sleep("status").out
    assert "pending (1 pending)" in stands and finding in stands
    adopted = sleep("adopt").out
    assert f"wrote {person.skill}" in adopted and finding in adopted and person.skill.read_text() == LEARNT
    assert "adopted (1 adopted)" in sleep("status").out
    assert sleep("undo").code == 0 and person.skill.read_bytes() == SKILL.encode()
    told = json.loads(sleep("discard", "--json").out)
    assert (told["action"], told["changes"], told["updated_paths"]) == ("discard", [1], [])
    ran = sleep("adopt")
    assert ran.code == 2 and "all of it is decided" in ran.err


@pytest.mark.slow
def test_a_night_as_json_is_one_object(person: Person, model: str) -> None:
    ran = sleep("run", "--model", model, "--quiet", "--json")
    told = json.loads(ran.out)
    assert ran.err == ""
    assert (told["night"], told["accepted"], told["adopted"], told["n_tasks"]) == (1, True, False, 20)
    (skill,) = told["skills"]
    assert (skill["baseline"], skill["candidate"], skill["verified"]) == (0.0, 1.0, True)
    assert skill["finding"].startswith("real: better on 8 of 8 held-out tasks (p = 0.0039)")
    assert Path(told["staging_dir"]).is_relative_to(person.home / ".skillopt-sleep")
    state = json.loads(sleep("status", "--json").out)
    assert (state["night"], state["open_night"], state["proposals"][0]["edits"]) == (
        1,
        None,
        {"1": "pending"},
    )


@pytest.mark.slow
def test_a_night_that_was_killed_goes_on_and_sends_nothing_twice(person: Person) -> None:
    with LoopbackProvider.in_thread(scripted(RULE), latency=lambda call: 0.3) as provider:
        words = ["run", "--quiet", "--json", "--model", f"compatible:m@{provider.base_url}"]
        env = {**os.environ, "PYTHONPATH": str(SRC)}
        argv = [sys.executable, "-m", "skillopt_sleep", *words]
        with subprocess.Popen(
            argv, cwd=person.project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as killed:
            while sum(one.ended is not None for one in provider.log) < 30 and killed.poll() is None:
                time.sleep(0.01)
            killed.kill()
            at = time.monotonic()
        assert killed.returncode == -signal.SIGKILL
        assert "Night 1 is open" in sleep("status").out
        arrived = {
            (one.place, one.draw) for one in provider.log if one.ended is not None and one.ended < at - 0.25
        }
        told = json.loads(sleep(*words).out)
        sent = Counter((one.place, one.draw) for one in provider.log)
    assert (told["night"], told["resumed"], told["accepted"]) == (1, True, True)
    assert len(arrived) >= 20 and {sent[call] for call in arrived} == {1}


@pytest.mark.slow
def test_settings_come_from_the_file_and_keys_from_the_env_beside_it(person: Person) -> None:
    folder = person.home / ".skillopt-sleep"
    (folder / "config.yaml").write_text("model: openai:gpt-5.4-mini\nmax_dollars_per_night: 0.5\n")
    assert "OPENAI_API_KEY" in sleep("dry-run").out
    (folder / ".env").write_text("OPENAI_API_KEY=sk-simulated-key-000000000000\n")
    ran = sleep("dry-run")
    assert (
        "OPENAI_API_KEY" not in ran.out and "tokens, $" in ran.out and "sk-simulated" not in ran.out + ran.err
    )


def test_the_env_of_the_repository_is_not_read(person: Person) -> None:
    (person.project / ".env").write_text("OPENAI_API_KEY=sk-of-somebody-else-00000000\n")
    assert "OPENAI_API_KEY" in sleep("dry-run", "--model", "openai:gpt-5.4-mini").out


def test_a_proposal_planted_in_a_cloned_repository_is_never_seen(person: Person, model: str) -> None:
    sleep("run", "--model", model, "--quiet")
    mine = person.home / ".skillopt-sleep" / "proposals"
    (person.project / ".skillopt-sleep").mkdir()
    (planted,) = mine.iterdir()
    planted.rename(person.project / ".skillopt-sleep" / planted.name)
    ran = sleep("adopt")
    assert ran.code == 2 and person.skill.read_text() == SKILL


def test_a_config_key_that_nobody_reads_stops_every_command(person: Person) -> None:
    (person.home / ".skillopt-sleep" / "config.yaml").write_text("modle: openai:m\n")
    ran = sleep("harvest")
    assert ran.code == 2 and "Did you mean 'model'?" in ran.err


@pytest.fixture
def crontab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A crontab program that keeps its table in a file, and no systemd."""
    table, programs = tmp_path / "table", tmp_path / "bin"
    programs.mkdir()
    script = (
        f'#!/bin/sh\nif [ "$1" = "-l" ]; then if [ -f {table} ]; then cat {table}; else echo "no crontab for'
        ' me" >&2; exit 1; fi\n'
    )
    (programs / "crontab").write_text(script + f"else cat > {table}; fi\n")
    (programs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    for name in ("crontab", "systemctl"):
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return table


@pytest.mark.skipif(sys.platform != "linux", reason="cron is how Linux without systemd does it")
def test_what_was_scheduled_is_what_runs(
    person: Person, crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crontab.write_text("5 4 * * * somebody elses\n")
    monkeypatch.setenv("CODEX_HOME", "/data/my codex")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-simulated-key-000000000000")
    flags = [
        "--model",
        "handoff",
        "--preferences",
        "100% short",
        "--skill-root",
        "mine",
        "--max-tokens",
        "9000",
    ]
    Path("mine").mkdir()
    ran = sleep("schedule", "--hour", "2", "--minute", "5", *flags)
    assert ran.code == 0, ran.err
    assert "somebody elses" in crontab.read_text() and "100\\% short" in crontab.read_text()
    assert "'CODEX_HOME=/data/my codex'" in crontab.read_text() and "sk-simulated" not in crontab.read_text()
    told = json.loads(sleep("status", "--json").out)["schedule"]
    assert told["time"] == "02:05"
    program, *words = told["command"]
    assert Path(program).stem in ("skillopt-sleep", Path(sys.executable).stem) and Path(program).is_file()
    assert "-m" not in words and "run" in words and "--plain" in words
    assert set(words[words.index("--plain") + 1 :]) == {
        f"--project={person.project}",
        "--model=handoff",
        "--preferences=100% short",
        f"--skill-root={person.project / 'mine'}",
        "--max-tokens=9000",
    }
    assert "No longer scheduled" in sleep("unschedule").out
    assert (
        crontab.read_text() == "5 4 * * * somebody elses\n" and "Nothing of ours" in sleep("unschedule").out
    )


def test_a_night_that_could_not_run_is_not_scheduled(
    person: Person, crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-simulated-key-000000000000")
    for flags, why in (
        ([], "No model is configured"),
        (["--model", "openai:gpt-5.4-mini"], "finds keys in ~/.skillopt-sleep/.env alone"),
        (["--model", "handoff", "--reader", "openai:gpt-5.4-mini"], "needs an API key"),
    ):
        ran = sleep("schedule", *flags)
        assert ran.code == 2 and why in ran.err and not crontab.exists(), (
            "a scheduler has no key of the shell"
        )
    (person.home / ".skillopt-sleep" / ".env").write_text("OPENAI_API_KEY=sk-simulated-key-000000000000\n")
    assert sleep("schedule", "--model", "openai:gpt-5.4-mini").code == 0 and crontab.exists()


@pytest.mark.slow
def test_a_scheduler_that_cannot_redirect_is_given_a_command_that_writes_its_own_log(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", "/data/codex")
    ran = sleep("schedule", "--scheduler", "task_scheduler", "--model", "handoff")
    assert ran.code == 0 and "Register-ScheduledTask" in ran.out, ran.err
    definition = ET.fromstring(ran.out[ran.out.index("<Task") : ran.out.index("</Task>") + len("</Task>")])
    words = split(definition.findtext(".//{*}Arguments") or "")
    log = next(word.removeprefix("--log=") for word in words if word.startswith("--log="))
    assert log in ran.out and log.endswith("night.log")
    ran = program(person, "run", "--log", log)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "")
    assert (
        "a model would read 20 sessions" in Path(log).read_text()
        and "No model is configured" in Path(log).read_text()
    )


def test_a_folder_that_nothing_can_be_kept_in_is_named(person: Person, tmp_path: Path) -> None:
    (person.home / ".skillopt-sleep" / "config.yaml").write_text(f"state_dir: {tmp_path / 'file'}\n")
    (tmp_path / "file").write_text("no folder")
    for words in (["run", "--model", "handoff"], ["adopt"]):
        ran = sleep(*words)
        assert ran.code == 2 and f"{tmp_path / 'file'}" in ran.err and "cannot be" in ran.err


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_a_project_whose_name_is_no_text_is_named(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = os.fsdecode(os.fsencode(person.home) + b"/b\xffd")
    Path(odd).mkdir()
    monkeypatch.chdir(odd)
    ran = sleep("run", "--model", "handoff")
    assert ran.code == 2 and "no UTF-8" in ran.err


@pytest.mark.slow
def test_the_door_is_the_same_program(person: Person) -> None:
    ran = program(person, "status")
    assert ran.returncode == 0 and ran.stdout.startswith(f"{person.project}: 0 nights so far")


@pytest.mark.parametrize(
    "name",
    [
        "harvest",
        "dry-run",
        "run",
        "status",
        "diff",
        "adopt",
        "discard",
        "undo",
        "schedule",
        "unschedule",
        "clean",
    ],
)
def test_every_command_of_the_group_explains_itself(name: str) -> None:
    ran = sleep(name, "--help")
    assert ran.code == 0 and f"Usage: skillopt sleep {name}" in ran.out and "--lookback-hours" in ran.out
