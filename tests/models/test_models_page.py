"""docs/models.md names every provider there is, and its example runs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from skillopt.models import PROVIDERS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_provider_of_ours_is_in_the_table_and_no_other() -> None:
    table = PAGE.partition("| provider | named |")[2].partition("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert named == set(PROVIDERS.names())


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    asyncio.run(names["main"]())
    assert capsys.readouterr().out == "4\n"
