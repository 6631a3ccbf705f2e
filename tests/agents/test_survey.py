"""The documentation's tables are what the code says, and a check of the machine names what is missing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from _tables import benchmark_table, support_table, with_tables

from harnesses._stub import stub
from skillopt.benchmarks import benchmarks
from skillopt.doctor._machine import check_programs

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


def test_the_tables_of_the_page_are_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| `(\w+)` \|", page.split("<!-- table: benchmarks -->")[1].split("<!-- end -->")[0], re.MULTILINE
    )
    plugins = {name: benchmarks.get(name) for name in shown}
    assert {"own", "searchqa"} <= set(plugins)
    assert page == with_tables(page, plugins), "write docs/agents.md anew"


def test_a_question_runs_under_every_harness() -> None:
    (row,) = [
        line
        for line in benchmark_table({"searchqa": benchmarks.get("searchqa")}).split("\n")
        if "searchqa" in line
    ]
    assert set(row.split(" | ")[1:-1]) == {"yes"}
    assert support_table().count("\n") == 2 + 5


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")
def test_a_check_of_the_machine_names_what_is_missing_and_what_isolates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = stub(tmp_path)
    named = {"claude_code": str(program)}
    claude, codex = (
        next(
            one
            for one in check_programs({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, named, ["codex"])
            if one.name == name
        )
        for name in ("claude_code", "codex")
    )
    assert {name: claude.facts[name] for name in ("path", "version", "isolated_by")} == {
        "path": str(program),
        "version": "9.9.9",
        "isolated_by": "CLAUDE_CODE_OAUTH_TOKEN",
    }
    assert claude.state == "fine"
    assert (codex.facts["path"], codex.facts["isolated_by"], codex.state) == (None, None, "fix")
    assert "npm install -g @openai/codex" in codex.remedy
    named = {"claude_code": str(stub(tmp_path, help="--print"))}
    (old,) = [one for one in check_programs({}, named, ["claude_code"]) if one.name == "claude_code"]
    assert old.state == "fix" and "does not know" in old.remedy
