"""A coding agent in small, for `proposers.py`: `python _proposing.py WORLD SEED TURN_TOKENS` reads the failed
rollouts of its workspace in eights, finds what the *simulated* optimizer of that world finds in them, and changes
the skill. Each eight is a turn, which sends TURN_TOKENS of its own and all that was read before.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from pathlib import Path
from typing import Any

from _worlds import KINDS, World
from _worlds_models import Simulated
from skillopt.messages import Message, Request
from skillopt.skill.document import Document
from skillopt.skill.edits import apply, parse_edit

EIGHT = 8


def main(world_name: str, seed: str, turn_tokens: str) -> None:
    """Do the work that stdin asks for, and say what it cost."""
    asked = json.loads(sys.stdin.read())
    world, workspace = World(KINDS[world_name], int(seed)), Path(asked["workspace"])
    file, shown = workspace / "skill/SKILL.md", workspace / "documents"
    skill = Document(file.read_text())
    failed = [path.read_text() for path in sorted(shown.glob("failed-*.md"))]
    verdicts = (shown / "verdicts.md").read_text()
    known = f"<skill>\n{skill.text}\n</skill>\n{verdicts}\n{asked['task']['prompt']}"
    found: list[dict[str, Any]] = []
    context, sent = len(known), 0
    for at in range(0, len(failed), EIGHT):
        text = "\n".join(failed[at : at + EIGHT])
        place = f"{asked['task']['id']}/{at}"
        question = Message(role="user", content=f"{known}\n{text}")
        reply = asyncio.run(
            Simulated(world, "optimizer").complete(
                Request(
                    messages=(question,), max_tokens=1, role="optimizer", stage="analyst_proof", place=place
                )
            )
        )
        found += json.loads(reply.text)["edits"]
        context += len(text)
        sent += int(turn_tokens) + math.ceil(context / 4)
    edits = [parse_edit(edit, str(number)) for number, edit in enumerate(found)]
    file.write_text(apply(edits, skill).document.text)
    changes = [
        {"words": str(edit.get("content") or edit.get("target")), "tasks": edit["tasks"]} for edit in found
    ]
    (workspace / "changes.json").write_text(json.dumps(changes))
    written = math.ceil(len(json.dumps(found)) / 4)
    usage = {
        "input_tokens": sent + int(turn_tokens),
        "output_tokens": written,
        "calls": 1 + len(failed) // EIGHT,
    }
    print(json.dumps({"answer": "done", "usage": usage}))


if __name__ == "__main__":
    main(*sys.argv[1:])
