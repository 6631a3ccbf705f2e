"""Where a call works: in the caller's project and never elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import skillopt
from mcp_server._client import ERAS, TRAIN, call, connected, text_of
from skillopt.errors import UsageError
from skillopt.mcp_server.place import Place, find_place, paths_of


def test_a_named_project_beats_the_first_root_and_that_the_servers_own_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one / "inside", two):
        folder.mkdir(parents=True)
    assert find_place(None, [], two).project == two
    assert find_place(None, [one, two], tmp_path).project == one
    assert find_place("inside", [one], two).project == one / "inside"
    assert find_place(str(two), [one], tmp_path).project == two


@pytest.mark.parametrize("folder", [Path("/"), Path(skillopt.__file__).parent, Path(skillopt.__file__).parent / "configs"])
def test_neither_the_package_nor_the_whole_machine_is_a_project(folder: Path) -> None:
    with pytest.raises(UsageError, match="is no project"):
        find_place(None, [], folder)


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        find_place("gone", [], tmp_path)


def test_roots_are_folders_of_this_machine(tmp_path: Path) -> None:
    spaced = tmp_path / "a b é"
    spaced.mkdir()
    uris = ["https://example.com/", "file://elsewhere/x", (tmp_path / "gone").as_uri(), spaced.as_uri(), f"file://localhost{tmp_path}"]
    assert paths_of(uris) == [spaced, tmp_path]


@pytest.mark.parametrize(
    "given",
    [
        {"out_root": "/elsewhere/run"},
        {"out_root": "../run"},
        {"out_root": "link/run"},
        {"out_root": "~/run"},
        {"cfg_options": ["train.seed=1", "env.out_root=../run"]},
        {"cfg_options": ["cache.path=/elsewhere/run.db"]},
    ],
)
def test_nothing_is_written_outside_the_roots_a_client_gave(tmp_path: Path, given: dict[str, object]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="lies outside"):
        Place(project=project, roots=(project,)).confine(given)
    Place(project=project).confine(given)  # a client that gave no roots drew no line


def test_a_project_outside_the_roots_may_be_read_and_not_written(tmp_path: Path) -> None:
    for name in ("root", "other"):
        (tmp_path / name).mkdir()
    place = find_place(str(tmp_path / "other"), [tmp_path / "root"], tmp_path)
    with pytest.raises(UsageError, match="lies outside"):
        place.confine({})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_with_roots_works_in_the_first_and_writes_in_no_other_place(tmp_path: Path, mode: str) -> None:
    root, elsewhere = tmp_path / "a root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "mine").mkdir()
    (root / "mine" / "train.yaml").write_text("_base_: quickstart\n")
    (root / "typer.py").write_text("raise SystemExit('a file of the project was run')\n")
    async with connected(elsewhere, mode=mode, roots=[root]) as client:
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
