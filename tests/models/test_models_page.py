"""docs/models.md names every provider there is."""

from __future__ import annotations

import re
from pathlib import Path

from skillopt.models import PROVIDERS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_provider_of_ours_is_in_the_table_and_no_other() -> None:
    table = PAGE.partition("| provider | named |")[2].partition("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert named == set(PROVIDERS.names())
