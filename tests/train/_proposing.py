"""Coding agents in small: they add the rules that failed cases of the rule world need, or misbehave.

As functions (`_proposing.py:good`), and as a program (`cmd: python _proposing.py good`). Each call is a line of the
file that the variable PROPOSING names.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from skillopt.models.world.rules import CASE, needs_of

USAGE = {"input_tokens": 900, "output_tokens": 100, "calls": 3}


def good(task: Any, skill: str, workspace: Path, more: str = "") -> dict[str, Any]:
    """One line for every missing rule, with the cases it is for."""
    file, shown = workspace / "skill/SKILL.md", workspace / "documents"
    texts = {path.name: path.read_text() for path in sorted(shown.iterdir())}
    asked = {"id": task.id, "prompt": task.prompt, "skill": file.read_text(), "files": texts}
    if log := os.environ.get("PROPOSING"):
        with Path(log).open("a", encoding="utf-8") as calls:
            calls.write(json.dumps(asked) + "\n")
    text = asked["skill"]
    failed = [case for name, each in texts.items() if name[0] == "f" for case in CASE.findall(each)]
    cases = list(dict.fromkeys(failed))
    rules = list(dict.fromkeys(rule for case in cases for rule in sorted(needs_of(case)) if rule not in text))
    file.write_text(text.rstrip("\n") + "\n" + "".join(f"- {rule}\n" for rule in rules) + more)
    changes = [{"words": rule, "tasks": [case for case in cases if rule in needs_of(case)]} for rule in rules]
    (workspace / "changes.json").write_text(json.dumps(changes))
    return {"answer": "done", "usage": USAGE}


def nothing(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    before = (workspace / "skill/SKILL.md").read_text()
    done = good(task, skill, workspace)
    (workspace / "skill/SKILL.md").write_text(before)
    return done


def garbage(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    done = good(task, skill, workspace)
    (workspace / "skill/SKILL.md").write_bytes(b"\xff\xfe")
    return done


def outside(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    (workspace / "notes.txt").write_text("what I think")
    (workspace / "skill/scripts").mkdir()
    (workspace / "skill/scripts/run.py").write_text("print(1)\n")
    return good(task, skill, workspace)


def protected(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    done, file = good(task, skill, workspace), workspace / "skill/SKILL.md"
    head = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
    file.write_text(head.sub("---\nname: other\ndescription: mine\n---\n", file.read_text()))
    return done


def secret(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    return good(
        task, skill, workspace, more="- Log in with ghp_0123456789abcdefghijABCDEFGHIJ012345 first.\n"
    )


def quote(task: Any, skill: str, workspace: Path) -> dict[str, Any]:
    text = (workspace / "documents/failed-001.md").read_text()
    found = re.search("<task>(.*?)</task>", text, re.DOTALL)
    assert found is not None
    return good(task, skill, workspace, more=f"- {found[1]}\n")


def babble(task: Any, skill: str, workspace: Path) -> Any:
    good(task, skill, workspace)
    return 42


def crash(task: Any, skill: str, workspace: Path) -> Any:
    """Down for as long as the file beside the log is there."""
    done = good(task, skill, workspace)
    if Path(f"{os.environ['PROPOSING']}.down").exists():
        raise ConnectionError("HTTP 503: overloaded")
    return done


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    about = SimpleNamespace(**{name: given["task"][name] for name in ("id", "prompt")})
    print(json.dumps(globals()[sys.argv[1]](about, "", Path(given["workspace"]))))
