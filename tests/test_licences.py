"""What an installation brings along may be used freely, and what may not is named."""

from __future__ import annotations

import runpy
import sys
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "licences.py"


def test_a_licence_that_is_not_known_to_be_free_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script: dict[str, Any] = runpy.run_path(str(SCRIPT))
    monkeypatch.setattr(sys, "argv", ["licences.py"])
    assert script["main"]() == 0, capsys.readouterr().out
    told = Message()
    told["License"] = "GNU AGPLv3"

    class Foreign:
        metadata = told

    monkeypatch.setitem(script["main"].__globals__, "brought", lambda name: {"foreign": Foreign()})
    assert script["main"]() == 1
    assert "foreign" in capsys.readouterr().out
