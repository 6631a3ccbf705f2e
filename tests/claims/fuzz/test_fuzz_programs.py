"""What agent programs print and people write by hand is read or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents._places import STREAMS
from claims._product import (
    AgentReport,
    CommandScorer,
    Fault,
    Finished,
    Message,
    QuestionFolder,
    Request,
    RunConflict,
    TaskError,
    Tool,
    Trajectory,
    UsageError,
    answered,
    as_plain,
    benchmarks,
    driver,
    fresh_place,
    load_queries,
    read_manifest,
    replies,
    storable,
)
from claims.fuzz._inputs import as_bytes, broken, spoilt, torn, tried, written
from claims.fuzz.test_fuzz import folder, refused

__all__ = ["folder"]

KEPT = {
    "claude_code": ".claude/projects/-workspace/s.jsonl",
    "codex": ".codex/sessions/2026/11/15/rollout-1.jsonl",
}
"""Where a program leaves the transcript that proves the skill."""
ANSWER = {
    "answer": "Lisbon",
    "trace": [
        {"role": "assistant", "content": "I look.", "tool_calls": [{"name": "search", "arguments": "{}"}]},
        {"role": "tool", "content": [{"type": "text", "text": "Invoice 7"}], "tool_call_id": "c"},
        "plain",
    ],
    "usage": {"input_tokens": 1200, "output_tokens": 80, "calls": 2, "usd": 0.004},
}
QUERIES = [{"prompt": f"Add column {n} to the table", "should_load": n % 2 == 0} for n in range(12)]


@pytest.mark.parametrize("name", ["claude_code", "codex", "copilot", "cursor", "opencode"])
def test_what_agents_print(name: str) -> None:
    streams = [path.read_text(encoding="utf-8") for path in sorted(STREAMS.glob(f"{name}*.jsonl"))]
    kept = (STREAMS / f"{name}_transcript.jsonl").read_text(encoding="utf-8") if name in KEPT else ""
    program = driver(name)
    with fresh_place() as fresh:
        place = replace(fresh, workspace=Path("/workspace"))
        if kept:
            (place.home / KEPT[name]).parent.mkdir(parents=True)

        def work(dice: Random) -> None:
            if kept:
                (place.home / KEPT[name]).write_bytes(torn(dice, kept.encode()))
            lines = dice.choice(streams).splitlines()
            for number in range(len(lines)):
                if dice.randrange(3) == 0:
                    lines[number] = spoiled_line(dice, lines[number])
            printed = Finished(
                code=dice.choice((0, 0, 0, 1, 130, -9)),
                stdout=as_bytes("\n".join(lines) + "\n"),
                stderr=as_bytes(broken(dice, dice.choice(("", "HTTP 429 rate limit", "login")))),
                cut=dice.randrange(20) == 0,
            )
            report = refused(Fault, lambda: program.report(printed, place, "house-style"))
            if report is not None:
                keep(report)

        tried(work)


def spoiled_line(dice: Random, line: str) -> str:
    """A line of JSON, broken as a value or as a text; one line stays one."""
    try:
        value = json.loads(line)
    except ValueError:
        return broken(dice, line).replace("\n", " ")
    return json.dumps(spoilt(dice, value)) if dice.randrange(2) else written(dice, value).replace("\n", " ")


def test_answers_of_own_agents() -> None:
    def work(dice: Random) -> None:
        said = spoilt(dice, spoilt(dice, ANSWER))
        report = refused(Fault, lambda: answered(said, "an agent"))
        if report is not None:
            keep(report)

    tried(work)


def test_what_scorers_print() -> None:
    scorer = CommandScorer(
        **{"name": "s", "version": "1", "graded": None, "argv": ("s",), "pass_at": None, "timeout": 1.0},
        sandbox=None,
    )
    samples = (0.5, True, {"score": 0.5, "feedback": "x"}, {"hard": 1, "soft": 0.5, "feedback": "y"})

    def work(dice: Random) -> None:
        printed = as_bytes(written(dice, dice.choice(samples)))
        score = refused(Fault, lambda: scorer._read(0, printed, b"", "the scorer"))
        assert score is None or (0 <= score.hard <= 1 and 0 <= score.soft <= 1)

    tried(work)


def keep(report: AgentReport) -> None:
    """What becomes of a report in a run's database."""
    done = Trajectory(messages=report.messages, answer=report.answer, calls=report.calls, usage=report.usage)
    json.dumps(storable(done), default=as_plain, ensure_ascii=False).encode()


def test_queries_of_a_description(folder: Path) -> None:
    path = folder / "triggers.jsonl"

    def work(dice: Random) -> None:
        rows = [written(dice, row) if dice.randrange(4) == 0 else json.dumps(row) for row in QUERIES]
        path.write_bytes(as_bytes("\n".join(rows)))
        refused(TaskError, lambda: load_queries(path, "2:1:1", 1))

    tried(work)


def test_answers_by_hand(tmp_path: Path) -> None:
    asked = Request(
        messages=(Message(role="user", content="2 + 2?"),),
        **{"max_tokens": 64, "role": "target", "stage": "rollout", "place": "p"},
    )
    tool = Tool.of("say", "Says a word aloud.", ["word"], word={"type": "string"})
    shapes: list[tuple[Request, Any]] = [
        (asked, "4"),
        (
            replace(asked, schema=replies.Ranking.model_json_schema()),
            {"selected_indices": [0], "reasoning": "r"},
        ),
        (replace(asked, tools=(tool,)), {"content": "", "tool_calls": [{"name": "say", "arguments": {}}]}),
    ]
    questions = QuestionFolder(tmp_path / "handoff")
    questions.publish([request for request, _ in shapes])
    (index,) = tmp_path.rglob("questions.json")
    told = json.loads(index.read_text(encoding="utf-8"))

    def work(dice: Random) -> None:
        for number, (request, sample) in enumerate(shapes):
            entry = told["questions"][number]
            (index.parent / entry["answer"]).write_bytes(as_bytes(written(dice, sample)))
            reply = questions.look(request)
            if not isinstance(reply, str):
                reply.text.encode()
                assert all(call.arguments.encode() for call in reply.tool_calls)
        index.write_bytes(as_bytes(written(dice, told)))
        refused(RunConflict, lambda: QuestionFolder(tmp_path / "handoff"))

    tried(work)


def test_lists_of_published_ids(folder: Path) -> None:
    path = folder / "ids.json"

    def work(dice: Random) -> None:
        path.write_bytes(as_bytes(written(dice, {"train": ["1", {"id": 2}], "val": [3], "test": ["4"]})))
        refused(UsageError, lambda: read_manifest(path))

    tried(work)


@pytest.mark.slow
def test_cases_of_a_skill(folder: Path) -> None:
    plugin = benchmarks.get("evals_json")
    cases = [
        {"id": n, "prompt": f"Sum up {n}.", "expected_output": "x", "assertions": ["a", {"text": "b"}]}
        for n in range(6)
    ]
    path = folder / "evals.json"

    def work(dice: Random) -> None:
        spoiled = [spoilt(dice, case) if dice.randrange(4) == 0 else case for case in cases]
        sample = {"evals": spoiled}
        path.write_bytes(as_bytes(written(dice, sample) if dice.randrange(2) else json.dumps(sample)))
        refused(UsageError, lambda: plugin(plugin.Settings(data_path=path)))

    tried(work)
