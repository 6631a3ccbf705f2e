"""kill -9 in the middle of an adoption or an undo: each file is the old or the new one, and status knows
which.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and kills with SIGKILL")


@pytest.fixture(scope="module", params=["hook", pytest.param("call", marks=pytest.mark.slow)])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("_killed.py")
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), request.param], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    # backed up, noted, two files replaced, done; between them some calls that touch the disk
    assert {row["action"]: row["number"] for row in found} == {"adopt": 5, "undo": 5} or (
        request.param == "call" and len(found) > 50
    )
    return found


@pytest.mark.slow
def test_every_one_of_them_was_really_killed(rows: list[dict[str, Any]]) -> None:
    assert {row["signal"] for row in rows} == {9}


def test_a_file_is_the_old_or_the_new_one_and_never_a_mix(rows: list[dict[str, Any]]) -> None:
    seen = {(row["action"], tuple(row["disk"].values())) for row in rows}
    assert all("mixed" not in files for _, files in seen)
    for action in ("adopt", "undo"):
        assert {files for done, files in seen if done == action} == {
            ("old", "old"),
            ("new", "new"),
            ("new", "old") if action == "adopt" else ("old", "new"),
        }


def test_status_knows_which_file_it_is(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        # To an undo, the text with the changes is the old one; a status without an interrupted move speaks of
        # the proposal.
        swap = (
            {"old": "new", "new": "old"}
            if row["action"] == "undo" and row["state"] == "interrupted"
            else {"old": "old", "new": "new"}
        )
        assert row["status"] == {name: swap[disk] for name, disk in row["disk"].items()}, row


def test_recovery_ends_with_all_files_old_or_all_new_and_leaves_nothing_behind(
    rows: list[dict[str, Any]],
) -> None:
    for row in rows:
        assert set(row["after"].values()) == ({"new"} if row["state_after"] == "adopted" else {"old"}), row
        assert row["state_after"] in ("adopted", "pending")
        assert row["left"] == []
        assert bool(row["recovered"]) == (row["state"] == "interrupted")


def test_a_file_that_was_already_replaced_is_never_taken_back_by_recovery(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        changed = "new" if row["action"] == "adopt" else "old"
        if changed in row["disk"].values():
            assert set(row["after"].values()) == {changed}, row


def test_after_recovery_the_next_command_works_as_ever(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert set(row["again"].values()) == ({"old"} if row["state_after"] == "adopted" else {"new"}), row
