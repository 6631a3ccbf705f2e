"""What was decided is in one file: a move is in it before a file changes, and the next command goes on from it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from changes._adoption import MEMORY, SKILL, THIRD, World
from skillopt.changes.journal import AppliedChange
from skillopt.errors import UsageError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(home=tmp_path).write()


def changes_of(world: World) -> tuple[AppliedChange, ...]:
    """Everything that was decided on the only proposal."""
    (history,) = world.store.journal.load().values()
    return history.changes


def test_a_move_is_written_down_before_the_first_file_changes_and_done_after_the_last(world: World) -> None:
    world.stage()
    seen = []

    def look(step: str) -> None:
        last = changes_of(world)[-1:]
        files = world.skill.read_bytes() == THIRD.encode(), world.memory.read_bytes() != MEMORY.encode()
        seen.append((step, [(move.is_open, [file.is_put for file in move.files]) for move in last], files))

    world.adoption(hook=look).adopt()
    assert seen == [
        ("backed up", [], (False, False)),
        ("noted", [(True, [False, False])], (False, False)),
        ("replaced notes", [(True, [True, False])], (True, False)),
        ("replaced CLAUDE.md", [(True, [True, True])], (True, True)),
        ("done", [(False, [True, True])], (True, True)),
    ]
    (move,) = changes_of(world)
    assert (move.action, move.edits, move.taken) == ("adopt", (1, 2, 3, 4), {1, 2, 3, 4})


def test_a_move_that_was_planted_makes_recovery_write_nothing_that_no_proposal_holds(world: World) -> None:
    proposal = world.stage()
    ((subject, history),) = world.store.journal.load().items()
    move = AppliedChange(
        action="adopt", reason=proposal.id, time=world.clock(), edits=(1, 2, 3, 4), is_open=True
    )
    world.store.journal.note(subject, history.plus(move))
    (said,) = world.adoption().recover()
    assert "no file had changed" in said
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), MEMORY.encode())


@pytest.mark.skipif(sys.platform == "win32", reason="forks and kills with SIGKILL")
def test_what_somebody_edits_after_a_crash_stays_and_the_rest_is_finished(world: World) -> None:
    world.stage()

    def die(step: str) -> None:
        if step == "replaced notes":
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        world.adoption(hook=die).adopt()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    # One edits the file that was replaced already, and one that was not.
    world.skill.write_bytes(THIRD.encode() + b"- mine\n")
    world.memory.write_bytes(MEMORY.encode() + b"mine\n")
    assert set(world.disks().values()) == {"other"}
    (said,) = world.adoption().recover()
    assert "CLAUDE.md had been edited meanwhile" in said
    assert world.adoption().status().proposals[0].decided == {
        1: "adopted",
        2: "adopted",
        3: "adopted",
        4: "pending",
    }
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (
        THIRD.encode() + b"- mine\n",
        MEMORY.encode() + b"mine\n",
    )
    assert not [name for name in world.files() if "tmp" in name]


@pytest.mark.parametrize("step", ["backed up", "noted", "replaced notes", "replaced CLAUDE.md"])
def test_an_adoption_that_is_interrupted_by_the_person_leaves_no_trace(world: World, step: str) -> None:
    before = world.files()
    world.stage()

    def stop(at: str) -> None:
        if at == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.adoption(hook=stop).adopt()
    assert world.files() == before
    (shown,) = world.adoption().status().proposals
    assert shown.state == "pending" and world.adoption().recover() == ()


def test_a_disk_that_takes_nothing_more_changes_nothing(world: World) -> None:
    world.stage()
    backups = world.store.folder(world.store.ids()[0]) / "backups"
    backups.write_text("in the way of the folder")
    with pytest.raises(UsageError, match=r"cannot be written.*Nothing was changed"):
        world.adoption().adopt()
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), MEMORY.encode())
    backups.unlink()
    world.adoption().adopt()
    assert world.skill.read_bytes() == THIRD.encode()
