"""An address that names a run leads to that run, wherever it stands in the list."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from multidict import MultiDict

from dashboard._visits import visit_of
from train._world import train


def test_a_list_that_is_opened_with_a_run_in_its_address_shows_it_first_and_ticked(tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "wanted"
    train(folder)
    for number in range(3):  # newer
        other = folder.with_name(f"other{number}")
        shutil.copytree(folder, other)
        os.utime(other / "events.jsonl", (4e9 + number, 4e9 + number))
    visit = visit_of(folder)
    address = visit.url("runs", run=visit.run.id)
    query = MultiDict(parse_qsl(urlsplit(address).query))
    opened = replace(visit, page=visit.around.pages["runs"], query=query, place=None)
    shown = str(asyncio.run(opened.page.build(opened))["runs"])
    boxes = re.findall(r'<input type="checkbox"[^>]*>', shown)
    assert len(boxes) > 1 and 'aria-label="Compare wanted"' in boxes[0]
    assert ["checked" in box for box in boxes] == [True] + [False] * (len(boxes) - 1)
    assert "Tick the runs to compare it with" in shown
