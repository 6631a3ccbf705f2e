"""What edits of other files than SKILL.md may not do, and how scripts are trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from cli._commands import run
from skillopt import run as api
from skillopt.config.load import load
from skillopt.errors import ConfigError
from skillopt.events import Judged, Updated
from skillopt.run import open_run, prepare

AGENT = """
import os

def agent(task, skill, folder):
    script = folder / "scripts" / "answer.py"
    knows = script.exists() and os.access(script, os.X_OK) and "# the answer is teal" in script.read_text()
    return "teal" if knows else "unknown"
"""
ANSWER = "the secret colour of the ninth room is a deep and quiet teal"
SCRIPT = '#!/usr/bin/env python3\n# the answer is teal\nprint("teal")\n'


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Ran:
    """A run of one step with these edits, on tasks that are all alike."""

    def __init__(self, folder: Path, *, skill: str = "house") -> None:
        self.folder = folder
        self.skill = skill
        self.events: list[object] = []
        (folder / "house" / "references").mkdir(parents=True)
        (folder / "house" / "SKILL.md").write_text("Colours stand in references/colours.md.\n")
        (folder / "house" / "references" / "colours.md").write_text("# Colours\n")
        (folder / "one.md").write_text("# One\n")
        (folder / "agent.py").write_text(AGENT)
        rows = [
            {"id": f"t{n}", "prompt": f"Room {n}?", "reference": ANSWER if n > 8 else "teal"}
            for n in range(10)
        ]
        for split, part in (("train", rows[:3]), ("val", rows[3:9]), ("test", rows[9:])):
            (folder / "splits" / split).mkdir(parents=True)
            (folder / "splits" / split / "rows.json").write_text(json.dumps(part))

    async def train(self, *edits: dict[str, str], options: tuple[str, ...] = ()) -> api.Result:
        """Train one step."""

        def answer(call: Call) -> str:
            return json.dumps({"patch": {"edits": list(edits)}})

        async with LoopbackProvider(answer) as provider:
            given = [
                *(
                    f"model.target={self.folder / 'agent.py'}:agent",
                    f"model.optimizer=compatible:m@{provider.base_url}",
                ),
                *("env.name=own", "env.split_dir=splits", f"env.skill_init={self.skill}"),
                *("train.strategy=paper", "train.num_epochs=1", "evaluation.eval_test=false", *options),
            ]
            job = prepare(load(None, flags={}, options=given, environ={}, cwd=self.folder))
            async with open_run(job, self.folder / "run", sinks=[self.events.append]) as opened:
                return await api.train(opened)

    def ended(self) -> list[tuple[str, str]]:
        """How each edit of the first step ended."""
        first = next(one for one in self.events if isinstance(one, Updated))
        return [(one.state, one.reason) for one in first.outcomes]


@pytest.mark.slow
async def test_a_script_is_trained_where_that_is_allowed_and_shown_in_full(tmp_path: Path) -> None:
    ran = Ran(tmp_path)
    result = await ran.train(
        {"op": "append", "path": "scripts/answer.py", "content": SCRIPT}, options=("skill.scripts=true",)
    )
    assert (result.state.baseline_score, result.state.best_score) == (0.0, 1.0), "the agent could run it"
    made = tmp_path / "run" / "best_skill" / "house" / "scripts" / "answer.py"
    assert made.read_text() == SCRIPT and made.stat().st_mode & 0o777 == 0o755
    assert "scripts/answer.py" in result.best_skill
    shown = run("runs", "diff", str(tmp_path / "run")).out
    assert run("report", str(tmp_path / "run")).code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    for line in SCRIPT.splitlines():
        assert f"+{line}" in shown
        assert line.replace('"', "&quot;") in page
    assert not (tmp_path / "house" / "scripts").exists(), "the person's own folder is as it was"


async def test_without_the_setting_a_script_is_an_unusable_edit(tmp_path: Path) -> None:
    ran = Ran(tmp_path)
    result = await ran.train({"op": "append", "path": "scripts/answer.py", "content": SCRIPT})
    assert ran.ended() == [("invalid", "scripts/answer.py is not trained (skill.scripts)")]
    assert result.best_files == {"references/colours.md": "# Colours\n"}


async def test_paths_that_lead_elsewhere_are_told_and_never_written(tmp_path: Path) -> None:
    ran = Ran(tmp_path)
    (tmp_path / "house" / "assets").mkdir()
    (tmp_path / "house" / "references" / "data.json").write_text("{}")
    (tmp_path / "house" / "references" / "old.md").write_bytes(b"\xff")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    paths = [
        "../one.md",
        str(tmp_path / "x.md"),
        "references/../../x.md",
        "references/.x.md",
        "references/old.md",
    ]
    await ran.train(
        *({"op": "append", "path": path, "content": "- x"} for path in paths),
        options=("optimizer.learning_rate=9",),
    )
    assert [state for state, _ in ran.ended()] == ["invalid"] * len(paths)
    assert all(reason for _, reason in ran.ended())
    outside = {
        path: path.read_bytes()
        for path in tmp_path.rglob("*")
        if "run" not in path.relative_to(tmp_path).parts[0] and path.is_file()
    }
    assert {path: data for path, data in outside.items() if "__pycache__" not in path.parts} == before


async def test_a_held_out_answer_in_a_reference_is_a_leak(tmp_path: Path) -> None:
    ran = Ran(tmp_path)
    await ran.train(
        {"op": "append", "path": "references/rooms.md", "content": f"- In room 9, {ANSWER}."},
        options=("evaluation.eval_test=true",),
    )
    assert next((one.action, one.decided_by) for one in ran.events if isinstance(one, Judged)) == (
        "reject",
        "leak_guard",
    )


async def test_a_skill_of_one_document_cannot_have_files(tmp_path: Path) -> None:
    ran = Ran(tmp_path, skill="one.md")
    await ran.train({"op": "append", "path": "references/a.md", "content": "- x"})
    assert ran.ended()[0][0] == "invalid" and "the skill is one document" in ran.ended()[0][1]
    with pytest.raises(ConfigError, match="is one document"):
        await ran.train(options=("skill.references=true",))
