"""Seeds in the gbrain form: a deficient skill with rows that show what it lacks; decides which rows teach,
decide and stay sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _nights import work_on
from _simulated import STUBBORN, Answers, Call, answers_of

from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.errors import TaskError, UnknownName
from skillopt.skill.folder import load_skill
from skillopt.tasks.task import Split, Task
from skillopt_sleep import NightSettings
from skillopt_sleep.plan import NightTarget
from skillopt_sleep.tasks import NightTask, split_of

ROWS, SEALED, SKILL = "benchmark.jsonl", "held-out.jsonl", "SKILL.md"
_HASH = NightSettings()


def find_seeds(root: Path, wanted: Sequence[str]) -> tuple[list[NightTarget], list[str]]:
    """The seeds below a folder: those that are wanted, or all; of all, those that need tools are left out
    with a sentence.

    Raises `TaskError` or `UnknownName` for what is not there, or was wanted by name and cannot be worked on.
    """
    names = sorted(path.parent.name for path in root.glob(f"*/{ROWS}"))
    if not names:
        raise TaskError(
            f"{root} holds no seed: there is no folder with {SKILL}, {ROWS} and {SEALED} in it. Correct"
            " --data-root."
        )
    works, left_out = [], []
    for name in wanted or names:
        if name not in names:
            raise UnknownName("seed", name, names)
        work = _read(root / name)
        tools = sorted(
            {
                str(check["arg"])
                for task in work.tasks
                for check in task.checks
                if check["op"] == "tool_called"
            }
        )
        why = (
            f"{name} wants calls of the tool {', '.join(tools)}, and a night replays requests as text,"
            " without tools."
        )
        if tools and wanted:
            raise TaskError(f"{why} Leave it out of --seeds.")
        if tools:
            left_out.append(why)
        else:
            works.append(work)
    return works, left_out


def _read(folder: Path) -> NightTarget:
    for name in (SKILL, SEALED):
        if not (folder / name).is_file():
            raise TaskError(f"The seed {folder} has no {name}. Add it, or leave the seed out.")
    read = OwnBenchmark(OwnSettings(data_path=folder / ROWS, test_path=folder / SEALED, scorer="checks"))
    if read.bad_rows:  # an experiment is about all rows of its seed
        raise TaskError(f"{read.bad_rows[0]} Correct the seed, or leave it out.")
    rows = sorted((*read.tasks("train"), *read.tasks("val")), key=lambda task: task.id)
    tasks = [_pinned(task, split_of(_form(task), _HASH)) for task in rows]
    if len({task.split for task in tasks}) < 2:
        raise TaskError(
            f"By the hash of their text all {len(tasks)} rows of {folder / ROWS} fall on one side"
            f" ({tasks[0].split}), and a night needs some to learn from and some to decide with. Add rows."
        )
    tasks += [_pinned(task, "test") for task in read.tasks("test")]
    return work_on(folder.name, load_skill(folder).document.text, tasks)


def _form(task: Task) -> str:
    """The request as it is hashed: the same words are on the same side in every night."""
    return " ".join(task.prompt.casefold().split())


def _pinned(task: Task, split: Split) -> NightTask:
    judge: Any = task.data.get("judge")
    checks = judge["checks"] if isinstance(judge, Mapping) else task.data["checks"]
    return NightTask(
        id=task.id,
        kind="",
        prompt=task.prompt,
        split=split,
        checks=tuple(dict(check) for check in checks),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a seed's scripted optimizer proposes, and what its simulated target writes with that rule in the
    skill and without it.
    """

    rule: str
    good: str
    bad: str


SCRIPTS = {
    "seed-missing-structure": Script(
        rule="Close every brief with a section Key Risks and a line that states your confidence.",
        good=(
            "Yes, in a small way first.\n\n## Key Risks\n\n- It costs more than it brings.\n\nConfidence:"
            " medium"
        ),
        bad="Yes, in a small way first.",
    ),
    "seed-verbose": Script(
        rule="Keep the whole analysis below a thousand characters, however many angles there are.",
        good="Yes, in a small way first: it is cheap to try and easy to take back.",
        bad="On the one hand it may pay, and on the other hand it may not, which leads to a further angle. "
        * 20,
    ),
}


def of_script(script: Script) -> Answers:
    """The simulated target and the scripted optimizer of a gbrain seed."""

    def target(call: Call) -> str:
        return script.good if script.rule in call.text and call.model != STUBBORN else script.bad

    return answers_of(target, lambda call: [] if script.rule in call.text else [script.rule])
