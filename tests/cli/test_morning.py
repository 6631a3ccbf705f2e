"""The morning: what waits is told in the person's own words, with an answer before and after, and decided."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from _loopback import LoopbackProvider
from cli._commands import SRC, run
from night._nights import LEARNT, RULE, SKILL, Person, scripted


@pytest.fixture
def model() -> Iterator[str]:
    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        yield f"compatible:m@{provider.base_url}"


def at_a_terminal(person: Person, *keys: str, words: tuple[str, ...] = ()) -> str:
    """What the program prints to somebody who types these lines."""
    import pty

    ours, theirs = pty.openpty()
    around = {**os.environ, "PYTHONPATH": str(SRC), "HOME": str(person.home), "TERM": "dumb"}
    argv = [sys.executable, "-m", "skillopt_sleep", *words]
    with subprocess.Popen(
        argv, cwd=person.project, env=around, stdin=theirs, stdout=theirs, stderr=theirs
    ) as ran:
        os.close(theirs)
        os.write(ours, "".join(f"{key}\n" for key in keys).encode())
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # the other end is gone
            pass
        ran.wait(60)
    os.close(ours)
    return said.decode()


def test_without_a_proposal_nothing_waits(person: Person) -> None:
    ran = run("sleep")
    assert ran.code == 0 and ran.out.startswith("Nothing waits for you.")


@pytest.mark.slow
def test_what_was_learned_is_told_with_the_persons_words_and_an_answer_before_and_after(
    person: Person, model: str
) -> None:
    assert run("sleep", "run", "--model", model, "--quiet").code == 0
    told = run("sleep").out
    for part in (
        "edit 1 (pending): " + RULE,
        'you said: No, you forgot the "Key Risks" section.',
        "You asked:",
        "Answer before:\n    A long text about everything and nothing.",
        "## Key Risks",
        f"+{RULE}",
        "`skillopt sleep adopt` takes what is shown to help",
    ):
        assert part in told, part
    assert person.skill.read_text() == SKILL, "looking changes nothing"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a terminal is opened as on Unix")
def test_the_person_decides_at_the_terminal(person: Person, model: str) -> None:
    assert run("sleep", "run", "--model", model, "--quiet").code == 0
    assert "Later:" in at_a_terminal(person, "l") and person.skill.read_text() == SKILL
    assert "Adopted: 1 change" in at_a_terminal(person, "s", "1") and person.skill.read_text() == LEARNT
    assert run("sleep", "undo").code == 0 and person.skill.read_text() == SKILL
    assert "Adopted: 1 change" in at_a_terminal(person, "a") and person.skill.read_text() == LEARNT
    assert run("sleep").out.startswith("Nothing waits for you. Last night: proposes changes to brief-writer.")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a terminal is opened as on Unix")
def test_what_is_not_shown_to_help_is_asked_about_edit_by_edit(person: Person, model: str) -> None:
    (person.home / ".skillopt-sleep" / "config.yaml").write_text("llm_mine: false\n")
    assert run("sleep", "run", "--model", model, "--quiet").code == 0
    asked = at_a_terminal(person, "n", words=("adopt",))
    assert f"edit 1: {RULE}" in asked and "Nothing shows that it helps. Adopt it?" in asked
    assert "Nothing was adopted." in asked and person.skill.read_text() == SKILL
    assert run("sleep", "adopt").code == 2 == run("sleep", "adopt", "--yes").code, "nobody can be asked"
    assert "Later:" in at_a_terminal(person, "a", "n") and person.skill.read_text() == SKILL
    assert "Adopted: 1 change" in at_a_terminal(person, "a", "y") and person.skill.read_text() == LEARNT
    assert run("sleep", "undo").code == 0
    assert "Adopted: 1 change" in at_a_terminal(person, "y", words=("adopt",))
