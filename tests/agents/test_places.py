"""Places of their own: what is removed with one, and what must not be touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skillopt.programs.place import remove

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
