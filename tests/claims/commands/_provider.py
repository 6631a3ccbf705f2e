"""A small SearchQA in a split folder, and a provider behind HTTP that solves it once the skill says how."""

from __future__ import annotations

import json
import re
from pathlib import Path

from claims._product import Answer, Call

RULE = "Answer with the capital city alone."
CITIES = (
    *("Paris", "Rome", "Madrid", "Lisbon", "Vienna", "Prague"),
    *("Warsaw", "Athens", "Dublin", "Oslo", "Berlin", "Bern"),
    *("Sofia", "Riga", "Tallinn", "Vilnius", "Zagreb", "Bratislava"),
)


def write_splits(root: Path) -> Path:
    """Six tasks in each split."""
    for place, split in enumerate(("train", "val", "test")):
        rows = [
            {
                "id": f"{split}{n}",
                "question": f"Which city is number {name}?",
                "context": f"[DOC] Number {name}",
                "answers": [name],
            }
            for n, name in enumerate(CITIES[place * 6 : place * 6 + 6])
        ]
        (root / split).mkdir(parents=True)
        (root / split / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return root


def answer(call: Call) -> Answer:
    """The target knows the city and says it right only with the rule; the optimizer proposes the rule."""
    if (call.place or "").startswith("rollout"):
        city = re.findall(r"Number (\w+)", call.text)[-1]
        return Answer(
            text=f"<answer>{city}</answer>"
            if RULE in call.text
            else f"<answer>It may be {city}, I think</answer>"
        )
    edits = {"reasoning": "too wordy", "edits": [{"op": "append", "content": f"- {RULE}"}]}
    return Answer(
        text=json.dumps(
            {"batch_size": 6, "failure_summary": [], "patch": edits, **edits, "selected_indices": [0]}
        )
    )
