"""Places of their own: what is removed with one, and what must not be touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from _needs import needs_bubblewrap
from skillopt.files import remove
from skillopt.programs.run import bare_env, fresh_place, unpacked, wall

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


@needs_bubblewrap
def test_what_a_cli_unpacked_at_its_first_start_is_read_by_all_and_changed_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    unpacked().mkdir(parents=True)
    (unpacked() / "program").write_text("unpacked")
    with fresh_place() as place:
        assert bare_env(place)["COPILOT_PKG_CACHE_HOME"] == str(unpacked())
        shell = Path("/usr/bin/env")
        script = f"cat {unpacked()}/program; echo spoilt > {unpacked()}/program"
        done = subprocess.run(
            [*wall(shell, place), str(shell), "sh", "-c", script], capture_output=True, text=True, check=False
        )
    assert (done.stdout, "Read-only file system" in done.stderr) == ("unpacked", True)
