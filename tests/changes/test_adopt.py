"""Adopting, taking back and deciding against: live files change only as the person decided, byte for byte."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from changes._adoption import FIRST, MEMORY, SKILL, THIRD, World
from skillopt.changes.journal import LOCK
from skillopt.errors import RunConflict, UnknownName, UsageError
from skillopt.files import lock
from skillopt_sleep.texts import with_learned

REMEMBERED = with_learned(MEMORY, "- Run make.").encode()
CLOSING = "- Close with the date.\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(home=tmp_path).write()


def test_adopt_changes_exactly_the_staged_bytes_and_undo_restores_them_exactly(world: World) -> None:
    before = world.files()
    proposal = world.stage()
    done = world.adoption().adopt()
    assert (done.proposal, done.change.taken, done.change.written) == (
        proposal.id,
        {1, 2, 3, 4},
        (world.skill, world.memory),
    )
    assert world.files() == {
        **before,
        ".claude/skills/notes/SKILL.md": THIRD.encode(),
        "project/CLAUDE.md": REMEMBERED,
    }
    assert world.adoption().undo().change.taken == {1, 2, 3, 4}
    assert world.files() == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["", "\ufeff"])
@pytest.mark.parametrize("tail", ["", "\n"])
def test_newlines_byte_order_mark_and_a_missing_last_newline_stay(
    world: World, newline: str, head: str, tail: str
) -> None:
    texts = [head + (text.rstrip("\n") + tail).replace("\n", newline) for text in (SKILL, FIRST, THIRD)]
    memory = head + (MEMORY.rstrip("\n") + tail).replace("\n", newline)
    world.skill.write_bytes(texts[0].encode())
    world.memory.write_bytes(memory.encode())
    world.stage(world.skill_draft(*texts[1:], before=texts[0]), world.memory_draft("- a\n  b", before=memory))
    world.adoption().adopt()
    assert world.skill.read_bytes() == texts[-1].encode()
    assert world.memory.read_bytes().startswith(memory.encode())
    assert f"- a{newline}  b{newline}".encode() in world.memory.read_bytes()
    world.adoption().undo()
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (texts[0].encode(), memory.encode())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_the_mode_of_a_file_stays_and_a_new_one_follows_the_umask(world: World) -> None:
    world.skill.chmod(0o640)
    fresh = world.skills / "fresh" / "SKILL.md"
    world.stage(
        world.skill_draft(),
        world.skill_draft(SKILL.replace(": notes", ": fresh"), name="fresh", path=fresh, before=None),
    )
    world.adoption().adopt()
    assert stat.S_IMODE(world.skill.stat().st_mode) == 0o640
    (world.home / "plain").write_text("x")
    assert fresh.stat().st_mode == (world.home / "plain").stat().st_mode
    world.adoption().undo()
    assert stat.S_IMODE(world.skill.stat().st_mode) == 0o640


def test_a_new_skill_is_made_with_its_folders_and_undo_takes_all_of_them_away(world: World) -> None:
    before = sorted(world.home.rglob("*"))
    deep = world.skills / "group" / "fresh" / "SKILL.md"
    world.stage(world.skill_draft(SKILL.replace(": notes", ": fresh"), name="fresh", path=deep, before=None))
    world.adoption().adopt()
    assert deep.read_text() == SKILL.replace(": notes", ": fresh")
    world.adoption().undo()
    ours = (world.home / "state", world.home / "config")
    assert [
        path
        for path in sorted(world.home.rglob("*"))
        if not any(path == one or one in path.parents for one in ours)
    ] == before


def test_a_folder_in_which_somebody_put_something_stays(world: World) -> None:
    deep = world.skills / "fresh" / "SKILL.md"
    world.stage(world.skill_draft(SKILL.replace(": notes", ": fresh"), name="fresh", path=deep, before=None))
    world.adoption().adopt()
    (deep.parent / "mine.txt").write_text("x")
    world.adoption().undo()
    assert [path.name for path in deep.parent.iterdir()] == ["mine.txt"]


# --- a part of it


def test_one_skill_can_be_adopted_by_its_name(world: World) -> None:
    world.stage()
    assert world.adoption().adopt(targets=["CLAUDE.md"]).change.taken == {4}
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), REMEMBERED)
    with pytest.raises(UnknownName, match="Did you mean 'notes'"):
        world.adoption().adopt(targets=["note"])


def test_edits_can_be_adopted_one_by_one_and_taken_back_one_by_one(world: World) -> None:
    world.stage(world.skill_draft())
    texts = [SKILL.encode()]
    for edit in (2, 1, 3):
        world.adoption().adopt(edits=[edit])
        texts.append(world.skill.read_bytes())
    assert texts[1] == (SKILL + CLOSING).encode()
    assert texts[3] == THIRD.encode()
    while len(texts) > 1:
        assert world.skill.read_bytes() == texts.pop()
        world.adoption().undo()
    assert world.skill.read_bytes() == SKILL.encode()
    with pytest.raises(UsageError, match="nothing to undo"):
        world.adoption().undo()


def test_what_was_taken_back_can_be_adopted_again(world: World) -> None:
    world.stage()
    for _ in range(2):
        world.adoption().adopt()
        world.adoption().undo()
    world.adoption().adopt()
    assert world.skill.read_bytes() == THIRD.encode()


def test_an_edit_that_stands_inside_another_does_not_go_alone(world: World) -> None:
    outer = SKILL + "- Say:\n  end of list\n"
    world.stage(world.skill_draft(outer, outer.replace("- Say:\n", "- Say:\n  one more\n")))
    with pytest.raises(UsageError, match="Edit 2 stands inside edit 1"):
        world.adoption().adopt(edits=[2])
    assert world.skill.read_bytes() == SKILL.encode()
    world.adoption().adopt(edits=[1])
    world.adoption().adopt(edits=[2])


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [([9], "has no edit 9; it has 1, 2, 3, 4"), ([1], "adopted already"), ([2], "discarded")],
)
def test_an_edit_that_cannot_be_adopted_is_named_and_nothing_happens(
    world: World, edits: list[int], complaint: str
) -> None:
    world.stage()
    world.adoption().adopt(edits=[1])
    world.adoption().discard(edits=[2])
    before = world.files()
    with pytest.raises(UsageError, match=complaint):
        world.adoption().adopt(edits=[3, *edits])
    assert world.files() == before


def test_discarding_touches_no_file_and_the_rest_can_still_be_adopted(world: World) -> None:
    world.stage()
    before = world.files()
    assert world.adoption().discard(edits=[1, 3]).change.taken == {1, 3}
    assert world.files() == before
    assert world.adoption().adopt().change.taken == {2, 4}
    assert world.skill.read_text() == SKILL + CLOSING
    with pytest.raises(UsageError, match="all of it is decided"):
        world.adoption().adopt()


def test_adopt_takes_the_newest_proposal_that_is_not_decided(world: World) -> None:
    first = world.stage(world.memory_draft())
    second = world.stage(world.skill_draft())
    assert world.adoption().adopt().proposal == second.id
    assert world.adoption().adopt().proposal == first.id
    assert world.adoption().undo().proposal == first.id
    assert world.adoption().undo().proposal == second.id


def test_in_another_project_nothing_is_decided_by_chance(world: World) -> None:
    mine = world.stage(world.memory_draft())
    here = replace(world.adoption(), project=str(world.project))
    there = replace(world.adoption(), project=str(world.home / "other"))
    for act in (there.adopt, there.discard, there.diff):
        with pytest.raises(UsageError, match=r"no proposal for .*other.* named by their id"):
            act()
    assert here.adopt().proposal == mine.id
    with pytest.raises(UsageError, match=r"Nothing of .*other is adopted"):
        there.undo()
    assert there.undo(mine.id).proposal == mine.id, "named, it is meant"


def test_without_any_proposal_the_person_is_told_how_to_get_one(world: World) -> None:
    for act in (world.adoption().adopt, world.adoption().discard, world.adoption().diff):
        with pytest.raises(UsageError, match="There is no proposal"):
            act()


def test_the_diff_shows_exactly_what_adopting_would_do(world: World) -> None:
    proposal = world.stage()
    whole = world.adoption().diff()
    assert (
        "+- Be short: three lines at most.\n" in whole
        and "+- Run make.\n" in whole
        and "-- Be short.\n" in whole
    )
    one = world.adoption().diff(edits=[2])
    assert [line for line in one.split("\n") if line[:1] in "+-" and line[:3] not in ("+++", "---", "")] == [
        "+- Close with the date."
    ]
    world.adoption().adopt(edits=[1])
    assert "three lines" not in "".join(
        line for line in world.adoption().diff().split("\n") if line.startswith("+")
    )
    world.adoption().adopt()
    assert world.adoption().diff(proposal.id) == whole


# --- not over somebody's head


def test_a_file_that_changed_since_the_proposal_is_not_overwritten_and_neither_is_any_other(
    world: World,
) -> None:
    world.stage()
    world.memory.write_bytes(MEMORY.encode() + b"mine\n")
    before = world.files()
    with pytest.raises(UsageError, match=r"CLAUDE\.md was changed.*not overwritten.*discard it"):
        world.adoption().adopt()
    assert world.files() == before
    assert world.adoption().adopt(targets=["notes"]).change.written == (world.skill,)


def test_a_file_that_went_away_or_appeared_since_is_refused(world: World) -> None:
    world.stage(
        world.skill_draft(),
        world.memory_draft(path=world.project / "AGENTS.md", name="AGENTS.md", before=None),
    )
    (world.project / "AGENTS.md").write_text("mine")
    with pytest.raises(UsageError, match="appeared"):
        world.adoption().adopt(targets=["AGENTS.md"])
    world.skill.unlink()
    with pytest.raises(UsageError, match="not there any more"):
        world.adoption().adopt(targets=["notes"])


def test_undo_refuses_a_file_that_was_edited_since_and_force_keeps_a_copy_of_it(world: World) -> None:
    world.stage()
    world.adoption().adopt()
    mine = THIRD.encode() + b"- My own.\n"
    world.skill.write_bytes(mine)
    with pytest.raises(UsageError, match=r"SKILL\.md was changed.*--force"):
        world.adoption().undo()
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (mine, REMEMBERED)
    done = world.adoption().undo(force=True)
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), MEMORY.encode())
    assert done.backups is not None and mine in [path.read_bytes() for path in done.backups.iterdir()]


def test_every_replaced_text_is_kept_and_no_backup_replaces_another(world: World) -> None:
    world.stage()
    for _ in range(2):
        world.adoption().adopt()
        done = world.adoption().undo()
    assert done.backups is not None
    kept = {path.name: path.read_bytes() for path in done.backups.iterdir()}
    assert sorted(kept) == [
        f"{move:03d}-{number}" + name
        for move in (1, 2, 3, 4)
        for number, name in ((1, "-SKILL.md"), (2, "-CLAUDE.md"))
    ]
    assert kept["001-1-SKILL.md"] == SKILL.encode() and kept["002-1-SKILL.md"] == THIRD.encode()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in done.backups.iterdir())


def test_a_change_between_the_check_and_the_write_stops_the_adoption(world: World) -> None:
    world.stage()

    def meddle(step: str) -> None:
        if step == "backed up":
            world.memory.write_bytes(b"somebody else's")

    with pytest.raises(UsageError, match="by somebody else"):
        world.adoption(hook=meddle).adopt()
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (SKILL.encode(), b"somebody else's")
    assert [name for name in world.files() if "tmp" in name] == []
    assert world.adoption().status().proposals[0].state == "pending"


def test_a_file_changed_once_the_move_is_written_down_is_left_out_and_said(world: World) -> None:
    world.stage()

    def meddle(step: str) -> None:
        if step == "noted":
            world.memory.write_bytes(b"somebody else's")

    done = world.adoption(hook=meddle).adopt()
    assert (done.change.left_out, done.change.taken, done.change.written) == (
        ("CLAUDE.md",),
        {1, 2, 3},
        (world.skill,),
    )
    assert (world.skill.read_bytes(), world.memory.read_bytes()) == (THIRD.encode(), b"somebody else's")
    (shown,) = world.adoption().status().proposals
    assert (shown.state, shown.decided[4], list(world.disks().values())) == (
        "partly adopted",
        "pending",
        ["new", "other"],
    )
    assert [name for name in world.files() if "tmp" in name] == []


def test_a_target_that_turns_into_a_link_at_the_last_moment_is_not_followed(world: World) -> None:
    world.stage()
    secret = world.home / "secret.md"
    secret.write_bytes(MEMORY.encode())

    def meddle(step: str) -> None:
        if step == "noted":
            world.memory.unlink()
            world.memory.symlink_to(secret)

    done = world.adoption(hook=meddle).adopt()
    assert (done.change.left_out, secret.read_bytes()) == (("CLAUDE.md",), MEMORY.encode())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_a_file_the_person_made_read_only_is_left_alone(world: World) -> None:
    world.stage()
    world.skill.chmod(0o444)
    with pytest.raises(UsageError, match=r"read-only.*chmod u\+w"):
        world.adoption().adopt()
    assert world.skill.read_bytes() == SKILL.encode()


# --- where it may write


def test_a_symlinked_target_is_refused_and_what_it_leads_to_is_untouched(world: World) -> None:
    proposal = world.stage()
    victim = world.home / "bashrc"
    victim.write_bytes(SKILL.encode())
    world.skill.unlink()
    world.skill.symlink_to(victim)
    with pytest.raises(UsageError, match=r"SKILL\.md is a symbolic link"):
        world.adoption().adopt()
    assert victim.read_bytes() == SKILL.encode() and world.skill.is_symlink()
    (shown,) = world.adoption().status().proposals
    disk, note = shown.on_disk(shown.targets[0], world.roots)
    assert disk == "refused" and "symbolic link" in note
    with pytest.raises(UsageError, match="symbolic link"):
        world.stage(world.skill_draft())
    assert world.store.ids() == [proposal.id]


def test_a_symlinked_parent_inside_the_root_is_refused(world: World) -> None:
    world.stage()
    elsewhere = world.home / "elsewhere"
    world.skill.parent.rename(elsewhere)
    (world.skills / "notes").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(UsageError, match="notes is a symbolic link or no folder"):
        world.adoption().adopt()
    assert (elsewhere / "SKILL.md").read_bytes() == SKILL.encode()


def test_a_root_that_is_reached_over_a_link_is_the_users_own_affair(world: World) -> None:
    link = world.home / "link"
    link.symlink_to(world.skills, target_is_directory=True)
    world.stage(world.skill_draft(path=link / "notes" / "SKILL.md"), roots=(link,))
    world.adoption(roots=(link,)).adopt()
    assert world.skill.read_bytes() == THIRD.encode()


def test_a_hard_link_is_refused(world: World) -> None:
    world.stage()
    os.link(world.skill, world.home / "other-name.md")
    with pytest.raises(UsageError, match="hard links"):
        world.adoption().adopt()


@pytest.mark.parametrize("name", ["skill.md", "Skill.md"])
def test_a_name_that_differs_only_in_case_is_not_a_second_file(world: World, name: str) -> None:
    with pytest.raises(UsageError, match=r"holds 'SKILL\.md', not"):
        world.stage(world.skill_draft(path=world.skill.with_name(name)))
    world.stage(world.skill_draft())
    world.skill.rename(world.skill.with_name(name))
    with pytest.raises(UsageError, match=rf"holds '{name}', not 'SKILL\.md'"):
        world.adoption().adopt()


def test_roots_are_the_users_and_never_the_proposals(world: World) -> None:
    world.stage()
    with pytest.raises(UsageError, match="not below a folder that you named"):
        world.adoption(roots=(world.project,)).adopt()
    assert world.files()[".claude/skills/notes/SKILL.md"] == SKILL.encode()
    world.adoption(roots=(world.project,)).adopt(targets=["CLAUDE.md"])


def test_nothing_is_adopted_where_a_root_holds_the_proposals_themselves(world: World) -> None:
    world.stage()
    with pytest.raises(UsageError, match="lies in"):
        world.adoption(roots=(world.home,)).adopt()
    assert world.skill.read_bytes() == SKILL.encode()


# --- one at a time


def test_a_second_adoption_waits_for_the_first_and_then_says_who_holds_it(world: World) -> None:
    world.stage()
    with lock(world.store.state / LOCK), pytest.raises(RunConflict, match=str(os.getpid())):
        world.adoption(patience=0.1).adopt()
    world.adoption().adopt()


PARALLEL = """
import sys
from pathlib import Path
from changes._adoption import SKILL, World
from skillopt.errors import UsageError
world = World(home=Path(sys.argv[1]))
number = int(sys.argv[2])
world.clock.time = world.clock.time.replace(hour=number)
proposal = world.stage(world.skill_draft(SKILL + f"- night {number}\\n"))
try:
    print(world.adoption(patience=30).adopt(proposal.id).proposal)
except UsageError as error:
    print("refused" if "is not overwritten" in str(error) else repr(error))
"""


@pytest.mark.slow
def test_of_four_nights_in_parallel_one_is_adopted_and_the_others_are_refused_by_their_pin(
    world: World,
) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    argv = [sys.executable, "-c", PARALLEL, str(world.home)]
    running = [
        subprocess.Popen(
            [*argv, str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True
        )
        for number in range(4)
    ]
    said = [process.communicate(timeout=60) for process in running]
    assert all(not error for _, error in said), said
    assert len(world.store.ids()) == 4
    shown = world.adoption().status()
    adopted = [one for one in shown.proposals if one.state == "adopted"]
    assert len(adopted) == 1 and shown.refused == {}
    (target,) = adopted[0].targets
    assert world.skill.read_bytes() == target.data(target.merged.edits)
    assert sorted(answer.strip() for answer, _ in said).count("refused") == 3


# --- what is known afterwards


def test_status_tells_where_everything_stands(world: World) -> None:
    world.stage()
    (shown,) = world.adoption().status().proposals
    assert (shown.state, set(shown.decided.values()), list(world.disks().values())) == (
        "pending",
        {"pending"},
        ["old", "old"],
    )
    world.adoption().adopt(edits=[1])
    (shown,) = world.adoption().status().proposals
    assert (shown.state, shown.decided, list(world.disks().values())) == (
        "partly adopted",
        {1: "adopted", 2: "pending", 3: "pending", 4: "pending"},
        ["new", "old"],
    )
    world.skill.write_bytes(b"mine")
    world.memory.unlink()
    (shown,) = world.adoption().status().proposals
    assert list(world.disks().values()) == ["other", "missing"]
    world.adoption().discard()
    assert world.adoption().status().proposals[0].state == "adopted"


def test_status_of_a_new_skill_says_that_it_is_not_there_yet_and_when_it_went_away(world: World) -> None:
    fresh = world.skills / "fresh" / "SKILL.md"
    world.stage(world.skill_draft(SKILL.replace(": notes", ": fresh"), name="fresh", path=fresh, before=None))

    def shown() -> tuple[str, str]:
        (shown,) = world.adoption().status().proposals
        return shown.on_disk(shown.targets[0], world.roots)

    assert shown() == ("old", "It is not there yet.")
    world.adoption().adopt()
    assert shown() == ("new", "")
    fresh.unlink()
    assert shown() == ("missing", "The file is not there any more.")


def test_status_and_diff_write_nothing(world: World) -> None:
    world.stage()
    before = {path: path.stat().st_mtime_ns for path in sorted(world.home.rglob("*"))}
    world.adoption().status()
    world.adoption().diff()
    world.adoption().store.decisions(None)
    assert {path: path.stat().st_mtime_ns for path in sorted(world.home.rglob("*"))} == before


def test_decisions_are_kept_for_the_next_night(world: World) -> None:
    proposal = world.stage()
    world.adoption().adopt(edits=[1, 4])
    world.adoption().discard(edits=[3])
    told = world.adoption().store.decisions(str(world.project))
    assert [(one.edit.id, one.decision, one.target.name) for one in told] == [
        (1, "adopted", "notes"),
        (4, "adopted", "CLAUDE.md"),
        (3, "discarded", "notes"),
    ]
    assert told[0].target.merged.part(1) == ("- Be short.\n", "- Be short: three lines at most.\n")
    assert told[2].edit.evidence[0].place == "e1/s3"
    world.adoption().undo()
    assert {one.edit.id: one.decision for one in world.adoption().store.decisions(None)} == {
        1: "undone",
        4: "undone",
        3: "discarded",
    }
    assert world.adoption().store.decisions("/another/project") == ()
    assert told[0].proposal == proposal.id


def test_a_proposal_that_cannot_be_read_does_not_stand_in_the_way_of_the_others(world: World) -> None:
    broken, good = world.stage(world.memory_draft()), world.stage(world.skill_draft())
    (world.store.folder(broken.id) / "proposal.json").write_text(json.dumps({"x": 1}))
    done = world.adoption().adopt()
    assert done.proposal == good.id and any(broken.id in line for line in done.recovered)
    assert list(world.adoption().status().refused) == [broken.id]


def test_who_adopts_is_told_what_the_held_out_tasks_say_of_it(world: World) -> None:
    world.stage(world.skill_draft(), world.memory_draft())
    said = world.adoption().findings()
    assert said[0] == "notes: real: better on 1 of 2 held-out tasks (p = 0.01)" and len(said) == 2
    done = world.adoption().adopt(edits=[1])
    assert done.findings == (f"{said[0]}, measured with all edits together",)
