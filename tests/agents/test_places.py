"""Places of their own: what is removed with one, and what must not be touched."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from skillopt.agents._place import _sweep, fresh_place, remove

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such permissions")


def test_a_place_that_is_gone_already_leaves_the_folder_above_as_it_was(tmp_path: Path) -> None:
    """The folder above is the machine's temporary folder, which everybody uses."""
    tmp_path.chmod(0o777)
    remove(tmp_path / "gone")
    assert tmp_path.stat().st_mode & 0o777 == 0o777


def test_what_a_link_in_a_place_leads_to_is_not_touched(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    mine.chmod(0o444)
    place = tmp_path / "place"
    (place / "shut").mkdir(parents=True)
    (place / "shut" / "link").symlink_to(mine)
    (place / "shut").chmod(0o555)
    remove(place)
    assert not place.exists()
    assert (mine.read_text(), mine.stat().st_mode & 0o777) == ("mine", 0o444)


def test_what_a_killed_process_left_goes_with_the_next_one_and_a_living_ones_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, foreign = tmp_path / "skillopt-agent-killed00", tmp_path / "skillopt-agent-notours0"
    for folder in (left, foreign):
        (folder / "workspace").mkdir(parents=True)
    (left / ".lock").touch()
    with fresh_place() as place:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([foreign.name, place.root.name])
        _sweep.cache_clear()
        with fresh_place():
            assert place.root.is_dir(), "its process is alive"
    assert [path.name for path in tmp_path.iterdir()] == [foreign.name]
