"""What is disturbed: commands with everything they need, the same in every round, and what makes two ends
equal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from claims._product import SEED_SKILL, Answer, Call, WorldRules, world_answers
from claims.chaos._session import Ended, Session, as_json, run
from claims.promises._runs import contents, facts, history, public_files
from night._nights import RULE, Person, scripted

SIZES = (
    *("env.train_cases=12", "env.val_cases=10", "env.test_cases=8", "env.workers=4", "train.batch_size=12"),
    *("train.num_epochs=2", "gradient.minibatch_size=3", "evaluation.repeats=1"),
)
ADD = "Add one to every number."
_MOMENT = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
AGENT = f"""
import json, os, sys, zlib
asked = json.load(sys.stdin)
if os.path.exists("crash-agent") and zlib.crc32(asked["task"]["id"].encode()) % 2:
    os.kill(os.getpid(), 9)
number = int(asked["task"]["prompt"].split()[-1])
print(json.dumps({{"answer": str(number + ({ADD!r} in asked["skill"]))}}))
"""
SCORER = """
import os
def score(task, answer):
    if os.path.exists("crash-scorer"):
        raise RuntimeError("the scorer crashed")
    return float(answer.strip() == task.reference)
"""


@dataclass(frozen=True)
class Job:
    """A command with its files. `same` gives what must come out equal, as a value that compares."""

    name: str
    argv: tuple[str, ...]
    furnish: Callable[[Path], None]
    same: Callable[[Path, Ended], Any]
    out: str | None = None
    """The run folder, for faults that touch it."""
    ends: frozenset[int] = frozenset({0})
    """Exit codes of an undisturbed end."""

    def session(self, folder: Path, *more: str, **faults: Any) -> Session:
        """The command in its folder; `more` are further arguments."""
        cwd = folder / "shop" if (folder / "shop").is_dir() else folder
        environ = {
            **{"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "PATH": os.environ["PATH"]},
            **{"NO_COLOR": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"},
        }
        return Session(argv=(*self.argv, *more), cwd=cwd, notes=folder.parent, environ=environ, **faults)


def answers(world: Callable[[Call], str]) -> Callable[[Call], str | Answer]:
    """The models of all jobs by name."""
    night = scripted(RULE)

    def answer(call: Call) -> str | Answer:
        model = call.body["model"]
        if model == "night":
            return night(call)
        if model == "adder":
            edits = [{"op": "append", "content": f"- {ADD}", "rationale": "one is missing"}]
            patch = {"reasoning": "", "edits": edits if "analyst" in (call.place or "") else []}
            return json.dumps({"batch_size": 1, "failure_summary": [], "patch": patch})
        return world(call)

    return answer


def world() -> Callable[[Call], str]:
    """The simulated world of the training runs."""
    return world_answers(WorldRules(seed=3))


def jobs(base_url: str) -> dict[str, Job]:
    """All of them, against one provider."""
    return {
        job.name: job
        for job in (*_trainings(base_url), _program(base_url), *_nights(base_url), _check(base_url))
    }


def _trainings(base_url: str) -> list[Job]:
    model = f"compatible:world@{base_url}"
    made = []
    for strategy in ("paper", "proof"):
        argv = (
            "train",
            "--env",
            "world",
            "--target",
            model,
            "--optimizer",
            model,
            "--out_root",
            "run",
            "--plain",
        )
        options = ("--cfg-options", *SIZES, f"train.strategy={strategy}")
        made.append(Job(f"train {strategy}", (*argv, *options), _nothing, _trained, out="run"))
    return made


def _program(base_url: str) -> Job:
    """Tasks, a scorer and an agent of one's own: programs that are started, and that crash."""
    argv = (
        *("train", "--env", "own", "--data_path", "tasks.jsonl", "--scorer", "score.py:score", "--plain"),
        *(
            "--target",
            f"cmd: {shlex.quote(sys.executable)} -IS agent.py",
            "--optimizer",
            f"compatible:adder@{base_url}",
        ),
        *("--skill_init", "skill.md", "--out_root", "run", "--cfg-options", "train.num_epochs=1"),
        *(
            "train.folds=1",
            "env.split_ratio=2:2:1",
            "env.workers=4",
            "evaluation.repeats=1",
            "train.batch_size=8",
        ),
    )

    def furnish(folder: Path) -> None:
        (folder / "agent.py").write_text(AGENT)
        (folder / "score.py").write_text(SCORER)
        (folder / "skill.md").write_text("# Numbers\n\n- Answer with a number.\n")
        rows = [{"id": f"t{n}", "question": f"Say {n}", "answer": str(n + 1)} for n in range(20)]
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return Job("train own program", argv, furnish, _trained, out="run")


def _trained(folder: Path, ended: Ended) -> Any:
    run = folder / "run"
    files = public_files(run)
    return {
        "facts": [_unpriced(fact) for fact in facts(run)],
        "history": history(run),
        "best": (run / "best_skill.md").read_text(),
        "files": {name: data for name, data in files.items() if not name.startswith("tracking/")},
    }


def _unpriced(fact: Any) -> Any:
    """A fact without what is set aside for test and gate, reckoned from what was paid: faults cost."""
    state = fact.get("state")
    if not isinstance(state, dict):
        return fact
    return {**fact, "state": {**state, "set_aside": None, "gate_share": None}}


def _nights(base_url: str) -> list[Job]:
    model = f"compatible:night@{base_url}"

    def home(folder: Path) -> Person:
        return Person(folder, now=datetime.now(timezone.utc))

    def furnish(folder: Path) -> None:
        home(folder).write()

    def slept(folder: Path) -> None:
        furnish(folder)
        ended = run(night.session(folder))
        assert ended.code == 0, ended.said

    def proposed(folder: Path, ended: Ended) -> Any:
        """The proposal as it is when it is adopted; the skill itself is as it was before."""
        before = home(folder).skill.read_text()
        status = as_json(run(command(folder, "sleep", "status", "--json")).said)
        adopted = run(command(folder, "sleep", "adopt"))
        return before, len(status["proposals"]), adopted.code, home(folder).skill.read_text()

    def adopted(folder: Path, ended: Ended) -> Any:
        there = home(folder).skill.read_text()
        undone = run(command(folder, "sleep", "undo"))
        return there, undone.code, home(folder).skill.read_text()

    def command(folder: Path, *argv: str) -> Session:
        return Job("", argv, _nothing, adopted).session(folder)

    options = ("--model", model, "--plain", "--max-tokens", "0")
    night = Job("night", ("sleep", "run", *options), furnish, proposed)
    return [night, Job("adopt", ("sleep", "adopt"), slept, adopted, ends=frozenset({0, 2}))]


def _check(base_url: str) -> Job:
    model = f"compatible:world@{base_url}"
    argv = ("check", "skills/codes", "--env", "world", "--target", model, "--out_root", "run", "--json")
    options = ("--cfg-options", *(one for one in SIZES if one.startswith("env.")))

    def furnish(folder: Path) -> None:
        skill = folder / "skills" / "codes" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        head = "---\nname: codes\ndescription: Answers with codes.\n---\n"
        skill.write_text(head + SEED_SKILL)
        git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder))
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Seed")):
            subprocess.run([*git, *words], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
        skill.write_text(head + SEED_SKILL + "\n- Be brief.\n")

    def compared(folder: Path, ended: Ended) -> Any:
        told = as_json(ended.said)
        return {name: value for name, value in told.items() if name not in ("folder", "spending")}

    return Job("check", (*argv, *options), furnish, compared, out="run", ends=frozenset({0, 6, 7}))


def _nothing(folder: Path) -> None:
    """The command needs no files."""


def fresh(folder: Path, job: Job, templates: Path) -> None:
    """The folder as it is before the first session of a round; a job is furnished once and copied then."""
    template = templates / job.name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    if not template.exists():
        folder.mkdir(parents=True)
        (folder / "tmp").mkdir()
        job.furnish(folder)
        shutil.copytree(folder, template, symlinks=True)
    else:
        shutil.copytree(template, folder, symlinks=True)


def names(folder: Path) -> set[str]:
    """Every file that is there; ids that hold a moment are cut out."""
    aside = ("__pycache__", ".git/", "run/tracking/")
    found = (name for name in contents(folder) if not any(part in name for part in aside))
    return {_MOMENT.sub("ID", name) for name in found}
