"""The journal: what is in it happened, what was torn did not, and nobody else can write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from changes._adoption import MEMORY, SKILL, THIRD, World
from skillopt.changes._seal import Key
from skillopt.changes.journal import JOURNAL, Entry, Journal
from skillopt.errors import UsageError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(home=tmp_path).write()


@pytest.fixture
def adopted(world: World) -> Path:
    world.stage()
    world.desk().adopt()
    return world.store.folder(world.store.ids()[0]) / JOURNAL


def test_a_move_is_begun_committed_and_done(world: World, adopted: Path) -> None:
    entries = Journal(adopted, world.store.ids()[0], world.store.key()).read()
    assert [(entry.move, entry.step) for entry in entries] == [(1, "begun"), (1, "committed"), (1, "done")]
    assert entries[0].action == "adopt" and entries[0].changes == (1, 2, 3, 4)
    assert [file.target for file in entries[0].files] == ["notes", "CLAUDE.md"]


def test_a_line_torn_at_any_byte_never_happened_and_recovery_goes_on_from_there(
    world: World, adopted: Path
) -> None:
    whole = adopted.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    for cut in range(ends[1], len(whole), 7):
        adopted.write_bytes(whole[:cut])
        (shown,) = world.desk().status().proposals
        assert shown.state == "interrupted" and [target.disk for target in shown.targets] == ["new", "new"]
        (said,) = world.desk().recover()
        assert "was finished" in said
        assert adopted.read_bytes()[: ends[1]] == whole[: ends[1]]
        assert world.desk().status().proposals[0].state == "adopted"


def test_what_a_torn_line_left_is_gone_when_the_next_one_is_written(world: World, adopted: Path) -> None:
    adopted.write_bytes(adopted.read_bytes() + b'{"line": 3, ' + b"x" * 5000)
    world.desk().undo()
    assert world.skill.read_bytes() == SKILL.encode()
    assert b"xxx" not in adopted.read_bytes()
    assert [
        move.action for move in Journal(adopted, world.store.ids()[0], world.store.key()).standing().moves
    ] == ["adopt", "undo"]


def test_a_torn_first_line_is_no_move(world: World, adopted: Path) -> None:
    adopted.write_bytes(adopted.read_bytes()[:40])
    assert Journal(adopted, world.store.ids()[0], world.store.key()).standing().moves == ()


def test_an_altered_forged_doubled_or_missing_line_is_refused_by_its_number(
    world: World, adopted: Path
) -> None:
    lines = adopted.read_bytes().splitlines(keepends=True)
    changed = lines[1].replace(b"committed", b"rolled_back")
    for number, bad in (
        (2, [lines[0], changed, lines[2]]),
        (2, [lines[0], lines[0], lines[1]]),
        (2, [lines[0], lines[2]]),
        (1, [b"{}\n", *lines]),
        (3, [*lines[:2], b"\xff\n"]),
    ):
        adopted.write_bytes(b"".join(bad))
        with pytest.raises(UsageError, match=rf"Line {number} of .*journal\.jsonl was not written by us"):
            world.desk().undo(world.store.ids()[0])
        assert list(world.desk().status().refused) == world.store.ids()
    assert world.skill.read_bytes() == THIRD.encode()


def test_a_planted_journal_makes_recovery_write_nothing(world: World) -> None:
    proposal = world.stage()
    path = world.store.folder(proposal.id) / JOURNAL
    forger = Journal(path, proposal.id, Key(b"x" * 32))
    now = world.clock()
    forger.append(Entry(move=1, step="begun", time=now, action="adopt", changes=(1, 2, 3, 4)))
    forger.append(Entry(move=1, step="committed", time=now))
    (said,) = world.desk().recover()
    assert "was not written by us" in said
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), MEMORY.encode())


def test_the_journal_of_one_proposal_is_not_that_of_another(world: World, adopted: Path) -> None:
    other = world.stage(world.memory_draft())
    (world.store.folder(other.id) / JOURNAL).write_bytes(adopted.read_bytes())
    assert other.id in world.desk().status().refused


class Stop(BaseException):
    """Ends the process, as far as the code can see."""


def test_what_somebody_edits_after_a_crash_stays_and_the_rest_is_finished(world: World) -> None:
    world.stage()

    def stop(step: str) -> None:
        if step == "replaced notes":
            raise Stop

    with pytest.raises(Stop):
        world.desk(hook=stop).adopt()
    # One edits the file that was replaced already, and one that was not.
    world.skill.write_bytes(THIRD.encode() + b"- mine\n")
    world.memory.write_bytes(MEMORY.encode() + b"mine\n")
    assert [target.disk for target in world.desk().status().proposals[0].targets] == ["other", "other"]
    (said,) = world.desk().recover()
    assert "CLAUDE.md had been edited meanwhile" in said
    assert world.desk().status().proposals[0].edits == {
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


@pytest.mark.parametrize("step", ["begun", "ready notes", "ready CLAUDE.md"])
def test_an_adoption_that_is_interrupted_by_the_person_leaves_no_trace(world: World, step: str) -> None:
    before = world.files()
    world.stage()

    def stop(at: str) -> None:
        if at == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.desk(hook=stop).adopt()
    assert world.files() == before
    (shown,) = world.desk().status().proposals
    assert shown.state == "pending" and world.desk().recover() == ()


def test_a_disk_that_takes_nothing_more_changes_nothing(world: World) -> None:
    world.stage()
    backups = world.store.folder(world.store.ids()[0]) / "backups"
    backups.write_text("in the way of the folder")
    with pytest.raises(UsageError, match=r"cannot be written.*Nothing was changed"):
        world.desk().adopt()
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), MEMORY.encode())
    backups.unlink()
    world.desk().adopt()
    assert world.skill.read_bytes() == THIRD.encode()
