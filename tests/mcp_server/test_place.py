"""Where a call works: in the caller's project and never elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import skillopt
from mcp_server._client import ERAS, TRAIN, call, inside, text_of
from skillopt.errors import UsageError
from skillopt.mcp.place import Denied, confine, find_project, paths_of


def test_a_named_project_beats_the_first_root_and_that_the_servers_own_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one / "inside", two):
        folder.mkdir(parents=True)
    assert find_project(None, [], two) == two
    assert find_project(None, [one, two], tmp_path) == one
    assert find_project("inside", [one], two) == one / "inside"
    assert find_project(str(two), [one, two], tmp_path) == two


@pytest.mark.parametrize(
    "folder", [Path("/"), Path(skillopt.__file__).parent, Path(skillopt.__file__).parent / "configs"]
)
def test_neither_the_package_nor_the_whole_machine_is_a_project(folder: Path) -> None:
    with pytest.raises(UsageError, match="is no project"):
        find_project(None, [], folder)


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        find_project("gone", [], tmp_path)


def test_roots_are_folders_of_this_machine(tmp_path: Path) -> None:
    spaced = tmp_path / "a b é"
    spaced.mkdir()
    uris = [
        "https://example.com/",
        "file://elsewhere/x",
        (tmp_path / "gone").as_uri(),
        spaced.as_uri(),
        f"file://localhost{tmp_path}",
    ]
    assert paths_of(uris) == [spaced, tmp_path]


@pytest.mark.parametrize(
    "path", ["/elsewhere/run", "../run", "link/run", "~/run", "~nobody-of-this-name/../../x"]
)
def test_no_path_leads_out_of_the_project(tmp_path: Path, path: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    with pytest.raises(Denied, match="lies outside"):
        confine(path, project)
    confine("project/link/run", tmp_path)  # inside again


def test_a_project_outside_the_folders_of_the_server_is_a_persons_to_name(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    for roots, default in (([root], other), ([], root)):
        with pytest.raises(Denied, match="skillopt mcp --project DIR"):
            find_project(str(other), roots, default)
    with pytest.raises(Denied, match="lies outside"):  # also one that is not there: whether it is is not told
        find_project(str(tmp_path / "gone"), [root], root)


def test_a_server_started_nowhere_works_nowhere_until_it_is_told_where(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="/ is no project"):
        find_project(str(tmp_path), [], Path("/"))
    assert find_project(None, [tmp_path], Path("/")) == tmp_path


def test_a_name_too_long_for_a_folder_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        find_project("x/" * 4000, [], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_with_roots_works_in_the_first_and_writes_in_no_other_place(
    tmp_path: Path, mode: str
) -> None:
    root, elsewhere = tmp_path / "a root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "mine").mkdir()
    (root / "mine" / "train.yaml").write_text("_base_: quickstart\n")
    (root / "typer.py").write_text("raise SystemExit('a file of the project was run')\n")
    async with inside(elsewhere, mode=mode, roots=[root]) as client:
        assert (await call(client, "sleep_status"))["result"]["project"] == str(root)
        refused = await client.call_tool("skillopt_train", {**TRAIN, "out_root": str(elsewhere / "run")})
        assert refused.is_error and "lies outside" in text_of(refused)
        refused = await client.call_tool("skillopt_train", {**TRAIN, "project": str(elsewhere)})
        assert refused.is_error and "lies outside" in text_of(refused)
        (runs,) = (await client.read_resource("skillopt://runs")).contents
        assert runs.text == '{\n  "runs": []\n}'  # type: ignore[union-attr]
        ran = await call(client, "skillopt_estimate", config="mine/train.yaml")
        assert ran["result"]["simulated"] is True  # a path is relative to the root
    assert not list(elsewhere.iterdir())
