"""The page Drafts: a person keeps, corrects and drops what a model drafted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from multidict import MultiDict

from dashboard._places import SCRIPT
from skillopt.dashboard._launch import Launches
from skillopt.dashboard._page import Surroundings, Visit
from skillopt.dashboard._runs import Roots
from skillopt.dashboard.pages import drafts
from skillopt.errors import UsageError

CHECKS = [{"op": "contains", "arg": "yes"}]


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    rows: list[dict[str, Any]] = [
        {"id": "mine", "prompt": "Ready?", "answer": "yes"},
        *(
            {"id": f"d{n}", "prompt": f"Request {n} {SCRIPT}", "checks": CHECKS, "drafted_by": "openai:m"}
            for n in range(3)
        ),
    ]
    (tmp_path / "my-skill").mkdir()
    file = tmp_path / "my-skill" / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "other.jsonl").write_text('{"id": "x"}\n', encoding="utf-8")
    roots = Roots([tmp_path])
    around = Surroundings(
        roots=roots, cwd=tmp_path, environ={}, pages={}, launches=Launches(roots, tmp_path, {})
    )
    return Visit(around=around, page=drafts.PLUGIN)


def rows_of(visit: Visit) -> list[dict[str, Any]]:
    text = (visit.around.cwd / "my-skill" / "tasks.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def form(visit: Visit, id: str, **more: str) -> MultiDict[str]:
    """The form of a draft as a browser sends it."""
    part, text = next(
        (name, text) for name, text in (await drafts.build(visit)).items() if f"<h2>{id}</h2>" in text
    )
    found = dict(re.findall(r'name="(file|draft)" value="([^"]*)"', text))
    assert found["draft"] == part
    return MultiDict({**found, "prompt": "Request", "checks": json.dumps(CHECKS), **more})


async def test_a_draft_is_kept_as_it_was_corrected_and_another_is_dropped(visit: Visit) -> None:
    shown = "".join((await drafts.build(visit)).values())
    assert "3 drafts, 1 task to train on." in shown and "other.jsonl" not in shown
    assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert "<code>skillopt tasks draft SKILL</code> lets" in shown
    reply = await drafts.act(visit, await form(visit, "d1", verb="keep", prompt="Another request"))
    assert "Kept: d1" in "".join(reply.parts.values())
    await drafts.act(visit, await form(visit, "d0", verb="drop"))
    mine, kept, left = rows_of(visit)
    assert mine == {"id": "mine", "prompt": "Ready?", "answer": "yes"}
    assert kept == {"id": "d1", "prompt": "Another request", "checks": CHECKS}
    assert left["id"] == "d2" and left["drafted_by"] == "openai:m"


async def test_what_cannot_be_kept_changes_nothing(visit: Visit) -> None:
    before = rows_of(visit)
    for more, said in (
        ({"checks": "contains yes"}, "Checks are a JSON list"),
        ({"checks": "[]"}, "Checks are a JSON list"),
        ({"prompt": " "}, "the request is empty"),
        ({"file": "../tasks.jsonl"}, "not there any more"),
        ({"file": "other.jsonl"}, "not there any more"),
        ({"draft": "draft-000000000000"}, "not there any more"),
        ({"verb": "publish"}, "not there any more"),
    ):
        with pytest.raises(UsageError, match=said):
            await drafts.act(visit, await form(visit, "d1", **{"verb": "keep", **more}))
    assert rows_of(visit) == before
    stale = await form(visit, "d1", verb="drop")
    await drafts.act(visit, await form(visit, "d1", verb="keep"))
    with pytest.raises(UsageError, match="not there any more"):
        await drafts.act(visit, stale)
