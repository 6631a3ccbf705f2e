"""A night trains a skill's references with it, and a person adopts and takes back each file of the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from night._nights import RULE, SKILL, Person, clock, scripted
from skillopt_sleep import Roles, run_night
from skillopt_sleep.adoption import Adoption

ENDINGS, MADE = "references/endings.md", "references/risks.md"
MAIN = SKILL + "\nHow briefs end stands in references/endings.md.\n"
BEFORE = "# Endings\r\n\r\n- No greeting.\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("path", [ENDINGS, MADE])
async def test_what_a_night_learns_for_a_reference_is_adopted_and_taken_back(
    tmp_path: Path, path: str
) -> None:
    person = Person(tmp_path.resolve()).write()
    folder = person.skill.parent
    (folder / "references").mkdir()
    person.skill.write_bytes(MAIN.encode())
    (folder / ENDINGS).write_bytes(BEFORE.encode())
    (folder / "references" / "photo.md").symlink_to(folder / ENDINGS)
    before = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}

    def answer(call: Call) -> str:
        said = scripted(RULE)(call)
        if "analyst_failure" not in (call.place or ""):
            return said
        assert f"<!-- SKILL_FILE {ENDINGS} -->" in call.text, "the analyst is shown the folder"
        reply = json.loads(said)
        for edit in reply["patch"]["edits"]:
            edit["path"] = path
        return json.dumps(reply)

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        roles = Roles(target=model, optimizer=model)
        ended = await run_night(person.around(), roles, environ={}, now=clock)
    assert ended.proposal is not None
    assert {one: one.read_bytes() for one in before} == before, "nothing changes before a person adopts"
    names = ["brief-writer", f"brief-writer/{MADE}"] if path == MADE else [f"brief-writer/{ENDINGS}"]
    assert [target.name for target in ended.proposal.targets] == names
    assert f"+{RULE}" in ended.proposal.targets[-1].diff()
    (evidence,) = ended.proposal.targets[-1].edits[0].evidence
    assert (evidence.edit["path"], evidence.edit["content"]) == (path, RULE)
    desk = Adoption(store=person.around().home.store, roots=person.around().roots(), now=clock)
    desk.adopt()
    if path == MADE:
        assert (folder / MADE).read_text() == f"{RULE}\n"
        assert person.skill.read_text() == MAIN + f"- [{MADE}]({MADE}): risks\n"
    else:
        assert (folder / ENDINGS).read_bytes() == f"{BEFORE}{RULE}\r\n".encode()
        assert person.skill.read_bytes() == MAIN.encode()
    desk.undo()
    assert {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()} == before
