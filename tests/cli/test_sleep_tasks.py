"""`skillopt sleep` with a file of tasks: written, read by a person, and only then sent; and mining that is
interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from _loopback import LoopbackProvider
from cli._commands import SRC, Ran, run
from night._nights import LEARNT, RULE, SKILL, Person, scripted
from night._reader import keep_readings

SECRET = "ghp_0123456789abcdefABCDEF0123456789abcd"


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(scripted(RULE)) as made:
        yield made


def sleep(*arguments: str) -> Ran:
    return run("sleep", *arguments)


@pytest.mark.slow
def test_tasks_are_written_reviewed_and_used_and_nothing_is_sent_before_that(
    person: Person, provider: LoopbackProvider
) -> None:
    talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    talks.write_text(talks.read_text().replace("free tier.", f"free tier. My token is {SECRET}."))
    keep_readings(person.around())
    told = json.loads(sleep("harvest", "--output", "tasks.json", "--json").out)
    path = person.project / "tasks.json"
    assert (told["tasks"], told["output"], told["kept"]) == (20, str(path), 20)
    assert path.stat().st_mode & 0o777 == 0o600 and SECRET not in path.read_text()
    again = sleep("harvest", "--output", "tasks.json")
    assert again.code == 2 and "exists already" in again.err
    talks.unlink()

    seen = json.loads(sleep("dry-run", "--tasks-file", "tasks.json", "--json").out)
    assert len(seen["tasks"]) == 20 and seen["targets"][0]["name"] == "brief-writer"
    roles = [
        "--target",
        f"compatible:m@{provider.base_url}",
        "--optimizer",
        f"compatible:m@{provider.base_url}",
    ]
    refused = sleep("run", "--tasks-file", "tasks.json", "--quiet", *roles)
    assert refused.code == 2 and "was not reviewed" in refused.err and provider.log == []

    path.write_text(path.read_text().replace('"reviewed": false', '"reviewed": true'))
    formal = json.loads(sleep("run", "--tasks-file", "tasks.json", "--quiet", "--json", *roles).out)
    assert formal["accepted"] is False and "see form alone" in formal["skills"][0]["finding"]
    assert sleep("adopt").code == 2 and person.skill.read_text() == SKILL
    path.write_text(path.read_text().replace('"form alone"', '"vouched for"'))
    ended = json.loads(sleep("run", "--tasks-file", "tasks.json", "--quiet", "--json", *roles).out)
    assert (ended["n_tasks"], ended["accepted"]) == (20, True)
    assert not [one for one in provider.log if (one.place or "").startswith("mine/")], (
        "they are mined already"
    )
    sleep("adopt")
    assert person.skill.read_text() == LEARNT


def test_a_bare_list_is_used_when_the_person_says_that_it_was_read(
    person: Person, provider: LoopbackProvider
) -> None:
    keep_readings(person.around())
    sleep("harvest", "--output", "tasks.json")
    path = person.project / "tasks.json"
    path.write_text(json.dumps(json.loads(path.read_text().replace("form alone", "vouched for"))["tasks"]))
    words = [
        "run",
        "--tasks-file",
        "tasks.json",
        "--quiet",
        "--json",
        "--model",
        f"compatible:m@{provider.base_url}",
    ]
    assert sleep(*words).code == 2 and provider.log == []
    assert json.loads(sleep(*words, "--reviewed").out)["accepted"] is True


def test_without_a_model_a_file_of_tasks_is_shown_and_the_remedy_told(person: Person) -> None:
    keep_readings(person.around())
    sleep("harvest", "--output", "tasks.json")
    ran = sleep("run", "--tasks-file", "tasks.json")
    assert (
        ran.code == 2
        and "would work on brief-writer with 20 tasks" in ran.out
        and "No model is configured" in ran.err
    )


def test_a_file_that_cannot_be_written_is_named_and_one_without_tasks_is_not_made(person: Person) -> None:
    (person.project / "file").write_text("no folder")
    ran = sleep("harvest", "--output", "file/tasks.json")
    assert ran.code == 2 and "cannot be written" in ran.err
    told = json.loads(sleep("harvest", "--since", "1h", "--output", "none.json", "--json").out)
    assert (told["tasks"], told["output"]) == (0, None) and not (person.project / "none.json").exists()
    assert "none.json was not written" in sleep("harvest", "--since", "1h", "--output", "none.json").out


def test_a_file_that_is_not_there_is_named(person: Person) -> None:
    ran = sleep("dry-run", "--tasks-file", "gone.json")
    assert ran.code == 2 and "gone.json cannot be read" in ran.err


def test_a_model_that_is_named_reads_the_sessions_for_the_file_once(
    person: Person, provider: LoopbackProvider
) -> None:
    (person.project / "there.json").write_text("{}")
    words = ("harvest", "--model", f"compatible:m@{provider.base_url}", "--output")
    assert sleep(*words, "there.json").code == 2 and not provider.log, (
        "nothing is paid for what cannot be kept"
    )
    assert "20 tasks written" in sleep(*words, "tasks.json").out
    asked = len(provider.log)
    assert {(one.place or "").partition("/")[0] for one in provider.log} == {"read", "mine", "judge"}
    assert "20 tasks written" in sleep(*words, "again.json").out and len(provider.log) == asked


@pytest.mark.slow
def test_another_file_is_another_night(person: Person, provider: LoopbackProvider) -> None:
    """An open night about sessions is not what a night about a file goes on with."""
    keep_readings(person.around())
    sleep("harvest", "--output", "tasks.json")
    model = f"compatible:m@{provider.base_url}"
    first = json.loads(sleep("run", "--model", model, "--quiet", "--json").out)
    state = next((person.home / ".skillopt-sleep" / "projects").glob("*/state.json"))
    state.write_text(json.dumps({**json.loads(state.read_text()), "open": 1}))
    second = json.loads(
        sleep("run", "--model", model, "--tasks-file", "tasks.json", "--reviewed", "--quiet", "--json").out
    )
    assert (first["night"], second["night"], second["resumed"]) == (1, 2, False)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_night_interrupted_while_it_mines_keeps_what_was_sent_and_goes_on(person: Person) -> None:
    with LoopbackProvider.in_thread(
        scripted(RULE), latency=lambda call: 0.4 if (call.place or "").startswith("mine/") else 0.0
    ) as provider:
        words = ["run", "--quiet", "--json", "--model", f"compatible:m@{provider.base_url}"]
        argv = [sys.executable, "-m", "skillopt_sleep", *words]
        with subprocess.Popen(
            argv, env={**os.environ, "PYTHONPATH": str(SRC)}, stdout=subprocess.DEVNULL
        ) as stopped:
            deadline = time.monotonic() + 30
            while not provider.log and stopped.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            stopped.send_signal(signal.SIGINT)
            assert stopped.wait(timeout=30) == 130
        told = json.loads(sleep(*words).out)
        asked = [one.place for one in provider.log if (one.place or "").startswith("mine/")]
    assert (told["night"], told["accepted"], len(asked)) == (1, True, 1)
