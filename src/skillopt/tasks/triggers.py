"""Queries that should load a skill and queries that should not: what its description is trained on.

A row: `{"prompt": "Split the name column of users in two", "should_load": true}`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

from skillopt.errors import TaskError
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.install import SkillListing, description_of
from skillopt.tasks.benchmark import AGENT_PROMPT
from skillopt.tasks.data import SplitBenchmark, TaskLoader
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.rows import DataRow
from skillopt.tasks.splits import Splits, ratio_split
from skillopt.tasks.task import SPLITS, Task
from skillopt.tasks.template import fill

LOAD, LEAVE = "should-load", "should-not-load"
"""The two kinds of query; the ids of tasks begin with theirs."""
DRAFTED = "drafted"
"""The field of the first line of a file that nobody has reviewed yet."""
_SAID = {"true": True, "false": False}


class TriggerBenchmark(SplitBenchmark):
    """A query passes if the skill is loaded exactly when it should be. The skill of a run is the description;
    `{skill}` in the prompt is its place in the list that a chat target chooses from.
    """

    name = "triggers"
    scorer_version = "triggers-1"
    scoring_rule = "the skill is loaded exactly if the request should load it"
    graded: bool | None = False

    def __init__(self, listing: SkillListing, splits: Splits, *, line: str) -> None:
        """`line` is how an agent lists a skill, with `{name}` and `{description}`."""
        listed = {one.name: one.description.replace("{skill}", "{ skill }") for one in listing.others}
        listed[listing.skill.name] = "{skill}"
        lines = [fill(line, {"name": name, "description": listed[name]}) for name in sorted(listed)]
        system = (files("skillopt.tasks") / "triggers_system.md").read_text(encoding="utf-8")
        super().__init__(
            splits=splits,
            system=fill(system, {"skills": "\n".join(lines)}),
            seed_skill=description_of(listing.skill),
            prompts={AGENT_PROMPT: ""},
        )

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Whether it was loaded as it should; how a chat target chose stands in its answer."""
        was_loaded = SKILL_FILE in trajectory.loaded
        right = float(was_loaded is (task.kind == LOAD))
        said = "The skill was loaded" if was_loaded else "The skill was not loaded"
        return Score(hard=right, soft=right, feedback="" if right else f"{said}, and that is wrong.")

    def protected(self, task: Task) -> Protected:
        """The words of the queries alone, which are protected as those of any task."""
        return Protected()


def load_queries(path: Path, ratio: str, seed: int) -> Splits:
    """The queries of a file in three splits of both kinds. Raises `TaskError` for an unreviewed draft."""
    loader = TaskLoader(_query, begin=_refuse_draft)
    queries = loader.tasks(path)
    parts = []
    for kind in (LOAD, LEAVE):
        found = [task for task in queries if task.kind == kind]
        if len(found) < len(SPLITS):
            raise TaskError(
                f"{path} holds {len(found)} queries that {kind.replace('-', ' ')} the skill. Add some: both"
                " kinds are trained on, judged by and tested."
            )
        parts.append(ratio_split(found, ratio, seed))
    train, val, test = (_in_turn(*(part.of(split) for part in parts)) for split in SPLITS)
    return Splits(train=train, val=val, test=test, bad_rows=tuple(map(str, loader.bad)))


def _refuse_draft(rows: Sequence[DataRow]) -> None:
    for row in rows:
        if DRAFTED in row.data:
            raise row.error(
                "these queries were drafted by a model and not reviewed yet. Read every line, correct what is"
                " wrong, then delete this line."
            )


def _query(row: DataRow) -> Task:
    prompt, wanted = row.text("prompt"), row.data.get("should_load")
    if isinstance(wanted, str):  # as a CSV file has it
        wanted = _SAID.get(wanted.strip().lower())
    if not isinstance(wanted, bool):
        raise row.error("should_load is no true or false. Say whether this query should load the skill.")
    kind = LOAD if wanted else LEAVE
    digest = hashlib.sha256(" ".join(prompt.split()).encode()).hexdigest()[:8]
    return Task(id=f"{kind}-{digest}", prompt=prompt, reference=kind.replace("-", " "), kind=kind)


def _in_turn(*parts: Sequence[Task]) -> tuple[Task, ...]:
    return tuple(task for pair in zip_longest(*parts) for task in pair if task is not None)
