"""Every line of the threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "threat-model.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def test_every_line_of_defence_has_a_test_and_every_named_test_is_there() -> None:
    rows = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and "line of defence" not in line
    ]
    assert len(rows) > 20
    missing = [row for row in rows if not _NAMED.search(row)]
    for file, test in _NAMED.findall(PAGE.read_text()):
        path = ROOT / file
        if not path.is_file() or (test and not re.search(rf"def {test}\(", path.read_text())):
            missing.append(f"{file}::{test}")
    assert missing == []


def test_each_surface_has_its_row() -> None:
    table = PAGE.read_text().partition("## Surfaces")[2].partition("\n## ")[0]
    named = [row.split("|")[1].lower() for row in table.splitlines() if row.startswith("| ")]
    surfaces = "repository, config files, run folders, receipts, proposals, dashboard, mcp, ray, own agents, "
    surfaces += "plug-ins, transcripts, replies, by http, programs that targets write, settings of agents"
    assert [each for each in surfaces.split(", ") if not any(each in name for name in named)] == []
