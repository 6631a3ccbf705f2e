"""In a run: a candidate that quotes held-out answers is refused before it is measured, and no prompt ever
shows what was quoted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _loopback import Call, LoopbackProvider
from cli._commands import run as command
from skillopt import run as api
from skillopt.config.load import load
from skillopt.events import Event, Judged, Notice
from skillopt.run import open_run, prepare

RULE = "Always say please."
ROWS = [
    {
        "id": f"i{n}",
        "prompt": f"Item number {n}",
        "answer": f"code {hashlib.sha256(str(n).encode()).hexdigest()[:12]}",
    }
    for n in range(20)
]
SPLITS = {"train": ROWS[:8], "val": ROWS[8:14], "test": ROWS[14:]}
HELD_OUT = [str(row["answer"]) for row in ROWS[8:]]
LEAK = f"Item 9 is answered with {ROWS[9]['answer']}."


@dataclass
class Seen:
    """What a run asked and what it said."""

    folder: Path
    prompts: list[str] = field(default_factory=list)
    """Everything the optimizer was shown."""
    events: list[Event] = field(default_factory=list)
    result: api.Result | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def write(folder: Path) -> None:
    for split, rows in SPLITS.items():
        (folder / "splits" / split).mkdir(parents=True)
        (folder / "splits" / split / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "seed.md").write_text("# Skill\n\nAnswer with the code.\n")


async def train(folder: Path, edits: list[str], *options: str) -> Seen:
    """A run in which the target solves every second item once the rule is in the skill, and the analyst
    proposes the same edits always.
    """
    seen = Seen(folder / "run")
    write(folder)

    def answer(call: Call) -> str:
        if (call.place or "").startswith("rollout/"):
            number = int(call.text.rpartition("Item number ")[2])
            return f"<answer>{ROWS[number]['answer'] if RULE in call.text and number % 2 else 'unknown'}</answer>"
        seen.prompts.append(call.text)
        return json.dumps(
            {
                "batch_size": 4,
                "patch": {"reasoning": "r", "edits": [{"op": "append", "content": text} for text in edits]},
            }
        )

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        given = [
            f"model.target={model}",
            f"model.optimizer={model}",
            "env.name=own",
            "env.split_dir=splits",
            "env.skill_init=seed.md",
        ]
        given += [
            "train.strategy=paper",
            "train.batch_size=4",
            "train.num_epochs=1",
            "gradient.failure_only=true",
            "evaluation.repeats=1",
            *options,
        ]
        job = prepare(load(None, flags={}, options=given, environ={}, cwd=folder))
        async with open_run(job, seen.folder, sinks=[seen.events.append]) as opened:
            seen.result = await api.train(opened)
    return seen


async def test_a_leak_is_refused_with_its_evidence_and_the_good_half_is_kept(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK, RULE])
    bundle, leaking, good = [event for event in seen.of(Judged) if str(event.place).startswith("e1/s1")]
    for refused in (bundle, leaking):
        assert (refused.action, refused.rows_used, refused.decided_by) == ("reject", 0, "leak_guard")
    assert good.action == "accept"
    assert seen.result is not None
    assert RULE in seen.result.best_skill
    assert LEAK not in seen.result.best_skill
    warning = next(event for event in seen.of(Notice) if event.id == "e1/s1/leaks")
    assert warning.level == "warning"
    assert ROWS[9]["answer"] in warning.text and "'i9'" in warning.text


async def test_no_prompt_and_no_memory_holds_what_was_quoted(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK, RULE])
    assert len(seen.prompts) == 2
    assert "it holds the answer of a held-out task" not in seen.prompts[0]
    told = seen.prompts[1]
    assert "[left out]" in told
    assert not [answer for answer in HELD_OUT for prompt in seen.prompts if answer in prompt]
    log = [json.loads(line) for line in (seen.folder / "events.jsonl").read_text().splitlines()]
    memory = [entry for event in log for entry in event.get("remembered", ())]
    assert memory and not [answer for answer in HELD_OUT if answer in json.dumps(memory)]


async def test_a_refused_candidate_is_told_by_the_kind_of_its_leak(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK])
    assert (
        "rejected. refused before measuring: it holds the answer of a held-out task; say it in general words"
        " instead" in seen.prompts[1]
    )
    assert seen.result is not None
    assert seen.result.best_skill == (tmp_path / "seed.md").read_text()


async def test_the_guard_also_stands_where_no_gate_does(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK], "evaluation.use_gate=false")
    assert {event.action for event in seen.of(Judged)} == {"reject"}
    steps = json.loads((seen.folder / "history.json").read_text())
    assert {step["action"] for step in steps} == {"reject"}
    assert LEAK not in (seen.folder / "skills" / "skill_v0002.md").read_text()


async def test_switched_off_it_refuses_nothing(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK, RULE], "gate.leak_guard=false")
    assert seen.result is not None
    assert LEAK in seen.result.best_skill
    assert not [event for event in seen.of(Notice) if event.id]


async def test_explain_agrees_with_a_refusal_and_shows_the_evidence(tmp_path: Path) -> None:
    seen = await train(tmp_path, [LEAK, RULE])
    for name in ("1/c0", "1/c1"):
        ran = command("runs", "explain", str(seen.folder), name)
        assert ran.code == 0, ran.out
        assert str(ROWS[9]["answer"]) in ran.out
