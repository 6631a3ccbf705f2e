"""What a run has spent is one number and what calls in flight have reserved is another, on every face."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from cli._commands import run
from dashboard._visits import visit_of
from skillopt.cli._progress import panel
from skillopt.files import lock
from skillopt.mcp.resources import RUNS, read
from skillopt.money import Amount
from skillopt.runs.database import Database
from skillopt.runs.reader import RunReader
from skillopt_webui._page import Parts
from train._world import train


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that is at work again after its first step."""
    folder = tmp_path / "outputs" / "run"
    train(folder)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if '"kind":"step"' in line)
    (folder / "events.jsonl").write_text("".join(lines[: first + 1]))
    (folder / "summary.json").unlink()
    return folder


def parts(folder: Path) -> Parts:
    visit = visit_of(folder)
    return asyncio.run(visit.page.build(visit))


def text(markup: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", markup).split())


@pytest.mark.slow
def test_calls_in_flight_are_reserved_and_none_of_what_was_spent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = RunReader(folder)
    reader.follow()
    paid = reader.spending.settled()
    spent, whole = (paid.calls, paid.tokens), f"{paid.calls:,} calls {paid.tokens:,} tokens"
    database = Database(folder / "run.db")
    database.begin_session()
    for number in range(3):
        database.open("target", "rollout", f"rollout/k{number}.0/0", Amount(calls=1, tokens=1000))
    with lock(folder / ".lock"):
        shown = {name: text(markup) for name, markup in parts(folder).items()}
        assert whole in shown["hero"]
        assert f"{paid.calls:,}, {paid.tokens:,}" in shown["now"]
        assert "in flight 3 reserved for them 3,000 tokens" in shown["now"]
        assert f"all {paid.calls:,} {paid.tokens:,}" in shown["spending"]
        assert "without a usage report, charged" not in shown["hero"]

        reader.follow()
        facts = reader.view()
        assert facts is not None and (facts.spent.calls, facts.spent.tokens) == spent
        assert [
            sum(getattr(one, name) for one in facts.spending.values()) for name in ("calls", "tokens")
        ] == [*spent]
        console = Console(file=io.StringIO(), width=200)
        console.print(panel(reader.status))
        live = console.file.getvalue()  # type: ignore[attr-defined]
        assert f"{paid.calls:,} calls · {paid.tokens:,} tokens · cost $0.00" in live
        assert "3 in flight, with 3,000 tokens reserved" in live

        monkeypatch.chdir(folder.parents[1])
        (listed,) = json.loads(run("runs", "--json").out)["runs"]
        (resource,) = json.loads(read(RUNS, folder.parents[1])[1])["runs"]
        told = json.loads(run("runs", "watch", str(folder), "--once", "--json-lines").out.splitlines()[-1])
        for one in (listed, resource, told):
            assert (one["calls"], one["tokens"]) == spent
            assert (one["in_flight"], one["tokens_reserved"]) == (3, 3000)
    # Their process is gone: nobody will report what they used.
    shown = {name: text(markup) for name, markup in parts(folder).items()}
    assert f"{paid.calls + 3:,} calls {paid.tokens + 3000:,} tokens" in shown["hero"]
    assert "Calls without a usage report, charged at their most: 3 (3,000 tokens)." in shown["hero"]
    assert f"all {paid.calls + 3:,} {paid.tokens + 3000:,}" in shown["spending"]
    database.shut()
