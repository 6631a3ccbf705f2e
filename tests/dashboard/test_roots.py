"""Which folders are runs to the dashboard: those below its roots, by an id that is no path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillopt.errors import UsageError
from skillopt_webui._runs import Roots


def make_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("")
    (folder / "run.db").write_bytes(b"")
    return folder


def test_runs_are_found_below_the_roots_each_once(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "a" / "one"), make_run(tmp_path / "a" / "deep" / "er" / "two")
    make_run(one / "inside")
    roots = Roots([tmp_path / "a", tmp_path / "a" / "deep", tmp_path / "not there yet"])
    found = roots.runs()
    assert sorted(place.folder for place in found) == [two, one]
    assert sorted(place.name for place in found) == ["deep/er/two", "one"]


def test_an_id_says_nothing_of_the_path_and_leads_back_to_the_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "outputs" / "secret-name")
    roots = Roots([tmp_path / "outputs"])
    id = roots.id_of(folder)
    assert id is not None and re.fullmatch(r"[0-9a-f]{16}", id)
    assert roots.find(id).folder == folder


def test_a_run_that_appears_later_is_found_and_one_that_went_is_not(tmp_path: Path) -> None:
    roots = Roots([tmp_path / "outputs"])
    assert roots.runs() == []
    folder = make_run(tmp_path / "outputs" / "late")
    id = roots.id_of(folder) or ""
    assert roots.find(id).folder == folder
    (folder / "run.db").unlink()
    with pytest.raises(UsageError, match="There is no run"):
        roots.find(id)


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    outside = make_run(tmp_path / "outside" / "run")
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "link").symlink_to(outside)
    (tmp_path / "outputs" / "up").symlink_to(tmp_path)
    roots = Roots([tmp_path / "outputs"])
    assert roots.runs() == []
    with pytest.raises(UsageError, match="There is no run"):
        roots.find(roots.id_of(tmp_path / "outputs" / "link") or "")


@pytest.mark.parametrize("id", ["../outside", "/etc", "..", "", "one", "0" * 16, "\0", "a" * 5000])
def test_an_id_that_is_a_path_is_nobodys(tmp_path: Path, id: str) -> None:
    make_run(tmp_path / "outputs" / "one")
    make_run(tmp_path / "outside")
    with pytest.raises(UsageError, match="There is no run") as caught:
        Roots([tmp_path / "outputs"]).find(id)
    assert len(str(caught.value)) < 1000


def test_a_folder_elsewhere_has_no_id(tmp_path: Path) -> None:
    assert Roots([tmp_path / "outputs"]).id_of(tmp_path / "elsewhere") is None
    assert Roots([tmp_path / "outputs"]).id_of(tmp_path / "outputs" / ".." / "elsewhere") is None


def test_a_root_behind_a_link_gives_the_same_ids(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "real" / "one")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    roots = Roots([tmp_path / "link"])
    assert [place.id for place in roots.runs()] == [roots.id_of(folder)]
