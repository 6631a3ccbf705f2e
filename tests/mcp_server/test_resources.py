"""Runs and skills as resources, and nothing else of the machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError

from cli._commands import run
from mcp_server._client import SMALL, connected
from skillopt.errors import UsageError
from skillopt.mcp.resources import TEMPLATES, listed, read


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a finished run and two skills; for reading only."""
    folder = tmp_path_factory.mktemp("project")
    out = folder / "outputs" / "one"
    ended = run(
        "train", "quickstart", "--quiet", "--num_epochs", "1", "--out_root", str(out), "--cfg-options", *SMALL
    )
    assert ended.code == 0, ended.err
    for place, name in ((".claude/skills", "brief writer"), ("skills", "reader")):
        (folder / place / name).mkdir(parents=True)
        (folder / place / name / "SKILL.md").write_text(f"# {name}\n", encoding="utf-8")
    return folder


@pytest.mark.slow
async def test_a_client_lists_and_reads_runs_and_skills(project: Path) -> None:
    async with connected(project) as client:
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        texts = {uri: (await client.read_resource(uri)).contents[0].text for uri in uris}  # type: ignore[union-attr]
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("skillopt://runs/../../etc/passwd")
    assert templates == list(TEMPLATES)
    (row,) = json.loads(texts["skillopt://runs"])["runs"]
    assert (row["folder"], row["status"], row["simulated"]) == ("outputs/one", "finished", True)
    assert set(row["resources"]) < set(uris)
    own = f"skillopt://runs/{row['id']}"
    assert json.loads(texts[f"{own}/summary"])["status"] == "finished"
    assert texts[f"{own}/best_skill"] == (project / "outputs/one/best_skill.md").read_text()
    assert "simulated" in texts[f"{own}/report"]
    assert (
        texts["skillopt://skills/brief%20writer"] == "# brief writer\n"
        and texts["skillopt://skills/reader"] == "# reader\n"
    )


@pytest.mark.parametrize(
    "uri",
    [
        "skillopt://skills/../reader",
        "skillopt://skills/..%2F..%2Fetc%2Fpasswd",
        f"skillopt://skills/{quote('/etc/passwd', safe='')}",
        "skillopt://skills/reader/SKILL.md",
        "skillopt://skills/",
        "skillopt://runs/outputs%2Fone/summary",
        "skillopt://runs/000000000000/summary",
        "skillopt://runs/000000000000/../summary",
        "file:///etc/passwd",
        "skillopt://skills/reader%00",
    ],
)
def test_no_address_leads_elsewhere(project: Path, uri: str) -> None:
    with pytest.raises(UsageError):
        read(uri, project)


def test_links_out_of_the_project_are_not_followed(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "secret").mkdir(parents=True)
    (outside / "secret" / "SKILL.md").write_text("a secret")
    inside = tmp_path / "inside"
    (inside / "skills").mkdir(parents=True)
    (inside / "skills" / "secret").symlink_to(outside / "secret")
    (inside / "skills" / "half").mkdir()
    (inside / "skills" / "half" / "SKILL.md").symlink_to(outside / "secret" / "SKILL.md")
    (inside / "outputs").symlink_to(project / "outputs")
    assert [uri for uri, *_ in listed(inside)] == ["skillopt://runs"]
    for name in ("secret", "half"):
        with pytest.raises(UsageError):
            read(f"skillopt://skills/{name}", inside)


def test_a_best_skill_that_is_a_link_out_of_its_run_is_not_read(project: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(project, tmp_path / "p")
    (tmp_path / "secret").write_text("a secret")
    best = copy / "outputs/one/best_skill.md"
    best.unlink()
    best.symlink_to(tmp_path / "secret")
    uri = next(uri for uri, *_ in listed(copy) if uri.endswith("/best_skill"))
    with pytest.raises(UsageError, match="leads out of its run"):
        read(uri, copy)
