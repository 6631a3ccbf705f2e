"""The measured reading of reactions: what a model is said to know is what it said of the labels."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _loopback import LoopbackProvider
from night._reader import reads
from night.experiments._programs import run

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "nights"))

from read_reactions import main


def content(text: str, number: int) -> Mapping[str, Any]:
    """A simulated reader that takes every later turn for contentment."""
    return {"reaction": "accepted" if number > 1 else "none"}


def test_a_reader_is_measured_on_what_it_said_and_asked_once(tmp_path: Path) -> None:
    with LoopbackProvider.in_thread(lambda call: reads(call.text, content)) as provider:
        words = ("--reader", f"compatible:m@{provider.base_url}", "--limit", 9, "--out", tmp_path, "--json")
        first = run(main, *words)
        asked = len(provider.log)
        assert run(main, *words).data == first.data and len(provider.log) == asked == 2
    read = first.data
    told = read["reactions"]
    assert told["accepted"]["told"] == read["sentences"] == 9 and read["unread"] == 0
    assert read["right"] == told["accepted"]["right"] == told["accepted"]["are"] == 4
    assert (told["corrected"]["told"], told["corrected"]["right"]) == (0, 0) and told["corrected"]["are"] > 0


def test_what_the_reader_leaves_out_is_unread_and_never_right(tmp_path: Path) -> None:
    with LoopbackProvider.in_thread(lambda call: "I cannot.") as provider:
        words = ("--reader", f"compatible:m@{provider.base_url}", "--limit", 9, "--out", tmp_path, "--json")
        read = run(main, *words).data
    assert (read["unread"], read["right"]) == (9, 0)
