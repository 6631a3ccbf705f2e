"""A coding agent that changes the skill's folder, with the rollouts beside it as files."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError
from skillopt.evaluation.runner import PlannedRow
from skillopt.evaluation.stage import Evaluation
from skillopt.events.step import Step
from skillopt.files import temporary_folder, write_text
from skillopt.messages import Tool
from skillopt.models.reading import Unusable
from skillopt.optimizer.ask import clipped, format_answer, memory_section, packaged, section, trajectory
from skillopt.optimizer.minibatches import TriedTask
from skillopt.optimizer.proof import LONGEST_PROMPT, with_named_tasks
from skillopt.optimizer.proposers.port import Evidence, ProposerSetup
from skillopt.redact import MARK, redact_patterns
from skillopt.skill.document import SKILL_FILE, Document, EditableFiles
from skillopt.skill.edits import Edit
from skillopt.skill.folder import copy_skill
from skillopt.skill.install import EVALS
from skillopt.skill.rewrite import split
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.task import Split, Task

STAGE = "proposer"
FOLDER, CHANGES = "skill", "changes.json"
ROLLOUT_ROOM = 40_000
"""Characters of one rollout; an agent reads what it wants of them."""
HISTORY_ROOM = 60_000
TRIES = 2
"""Of an agent that fails, or whose folder cannot be used."""


class AgentProposer:
    """Asks an agent once for a whole batch. Its workspace holds the skill's folder and, read-only, one file
    for each rollout and one with the verdicts; the folder as it leaves it is the proposal.
    """

    def __init__(self, setup: ProposerSetup) -> None:
        if setup.agent is None:
            raise ConfigError(
                "train.proposer agent needs an agent: set model.proposer to one such as"
                " 'claude_code/anthropic:MODEL', 'codex/openai:MODEL' or 'cmd: PROGRAM'."
            )
        self._work = _ProposalWork()
        self._seed = setup.seed
        self._editable = setup.editable
        self._evaluator = setup.agent(self._work)
        self._surroundings = section(
            "What the agent with the skill is told, the skill in its place",
            clipped(setup.target_prompt, LONGEST_PROMPT),
        ) + section("How its answers are scored", setup.scoring_rule)

    async def propose(self, step: Step, item: str, evidence: Evidence) -> Sequence[Edit]:
        """The changes of the agent as edits; one that leaves an unusable folder is asked once more."""
        trouble = ""
        for attempt in range(TRIES):
            done = await self._ask(step, item, attempt, evidence, trouble)
            try:
                return edits_of_files(step, item, done.files, self._editable)
            except Unusable as error:
                trouble = str(error)
        raise Unusable(trouble)

    async def _ask(self, step: Step, item: str, attempt: int, evidence: Evidence, trouble: str) -> Trajectory:
        """One rollout of the agent, stored first; raises `ProviderDown` where it could not be run."""
        shown = documents(step, evidence)
        place = str(step.place.at(STAGE, item, attempt=attempt))
        with temporary_folder("skillopt-proposal-") as root:
            skill = root / FOLDER
            copy_skill(self._seed, step.skill.whole, skill, without=EVALS)
            for name, text in shown.items():
                write_text(root / "shown" / name, text)
            content = json.dumps([place, shown], sort_keys=True)
            limit = f"Make at most {evidence.limit} changes." if evidence.limit is not None else ""
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(evidence.kinds.items()))
            task = Task(
                id=place,
                prompt=(
                    self._surroundings
                    + section("Advice from earlier epochs", step.meta_skill)
                    + section("Held-out failures by kind of task", kinds)
                    + section("Limit", limit)
                    + section("Which files may change", _may_change(self._editable))
                    + section("Your first attempt could not be used", trouble)
                ),
                files=(skill,),
                surroundings=hashlib.sha256(content.encode()).hexdigest(),
            )
            self._work.shown[place] = sorted((root / "shown").iterdir())
            evaluation = Evaluation(
                self._evaluator, step, "", [PlannedRow(task=task)], stage=STAGE, tries=TRIES, tells_rows=False
            )
            (outcome,) = await evaluation.close()
        assert isinstance(outcome, Scored), "a stage of one lost row does not close"
        step.tokens.add(STAGE, outcome.trajectory.calls, outcome.trajectory.usage)
        return outcome.trajectory


PLUGIN = AgentProposer


def documents(step: Step, evidence: Evidence) -> dict[str, str]:
    """What the agent is shown, by file name: rollouts of train tasks and the history of verdicts."""
    dead = []
    for dead_edit in evidence.dead:
        dead.append(f"- {json.dumps(dead_edit.edit.as_json(), ensure_ascii=False)}")
        dead += [f"  - {format_answer(task, rollout)}" for task, rollout in dead_edit.answers]
    harmful = [f"- {json.dumps(edit.as_json(), ensure_ascii=False)}" for edit in evidence.harmful]
    verdicts = (
        memory_section(step.memory, HISTORY_ROOM)
        + section("Edits that were tried on the failures and did nothing", "\n".join(dead))
        + section("Edits that broke tasks which worked", "\n".join(harmful))
    )
    return {
        **dict(_rollouts("failed", evidence.failed)),
        **dict(_rollouts("passed", evidence.passed)),
        "verdicts.md": verdicts or "Nothing was tried so far.\n",
    }


def edits_of_files(step: Step, item: str, files: Mapping[str, str], editable: EditableFiles) -> list[Edit]:
    """The edits that an agent's changed files (name to base64) are, by file and place. What may not change is
    an edit with the reason, which ends as invalid; raises `Unusable` for a file that cannot be read.
    """
    edits: list[Edit] = []
    refused: list[Edit] = []
    changes: list[Any] = []
    for name, content in sorted(files.items()):
        if name == CHANGES:
            changes = _changes(content)
            continue
        path = name.removeprefix(f"{FOLDER}/")
        problem = f"{name} lies outside of the skill" if path == name else editable.problem(path)
        if problem:
            refused.append(Edit(op="", problem=f"{problem}; it is left out"))
            continue
        before = step.skill if path == SKILL_FILE else Document(step.skill.files.get(path, ""))
        text = _text(name, content)
        edits_of_file, problem = split(before, text)
        if problem:
            raise Unusable(f"{name} {problem}")
        edits += [_without_secret(replace(edit, path=path), before.text) for edit in edits_of_file]
        refused += [replace(edit, path=path) for edit in _protected(before, text)]
    proposals = [*with_named_tasks(edits, changes), *refused]
    return [replace(edit, id=str(step.place.at(STAGE, item, number=at))) for at, edit in enumerate(proposals)]


def _may_change(editable: EditableFiles) -> str:
    text = f"`{FOLDER}/{SKILL_FILE}`, which the other agent always reads."
    if editable.references:
        text += (
            f" Markdown files below `{FOLDER}/references`, which it reads where {SKILL_FILE} tells it to:"
            f" details that only some tasks need. You may add such files; name each of them in {SKILL_FILE}."
        )
    if editable.scripts:
        text += f" Programs below `{FOLDER}/scripts`, which it may run where {SKILL_FILE} says when and how."
    return text + " Nothing else."


def _rollouts(side: str, studied: Sequence[TriedTask]) -> Iterator[tuple[str, str]]:
    for number, one in enumerate(studied, 1):
        tries = one.tries if one.differs else one.tries[-1:]
        texts = [trajectory(one.task, rollout, ROLLOUT_ROOM // len(tries)) for rollout in tries]
        yield f"{side}-{number:03}.md", "\n\n".join(texts) + "\n"


def _text(name: str, content: str) -> str:
    try:
        return base64.b64decode(content).decode()
    except UnicodeDecodeError:
        raise Unusable(f"{name} is not UTF-8 text") from None


def _changes(content: str) -> list[Any]:
    """What the agent says its changes are for; nothing where it cannot be read, as it decides nothing."""
    try:
        changes = json.loads(base64.b64decode(content))
    except (ValueError, RecursionError):
        return []
    return changes if isinstance(changes, list) else []


def _without_secret(edit: Edit, before: str) -> Edit:
    is_marked = MARK in edit.content and MARK not in before
    if not is_marked and redact_patterns(edit.content) == edit.content:
        return edit
    return Edit(op="", problem="it holds a credential, which no skill may")


def _protected(before: Document, text: str) -> list[Edit]:
    """Edits of the protected parts that a text has changed or lost, which end as protected."""
    lines = text.replace("\r\n", "\n")
    parts = [before.text[low:high] for low, high in before.protected]
    return [
        Edit(op="delete", target=part)
        for part in parts
        if part.strip() and part.replace("\r\n", "\n").strip() not in lines
    ]


class _Shown:
    """The environment of a proposal: documents to read."""

    tools: Sequence[Tool] = ()
    max_turns = 1

    def __init__(self, shown: Sequence[Path]) -> None:
        self.documents = shown

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """There are no tools of ours."""
        return f"There is no tool {name!r}."

    async def close(self) -> None:
        """Nothing is open."""


class _ProposalWork(Benchmark):
    """Proposals as the tasks of a benchmark, which any agent can work on; all of them pass."""

    name = STAGE
    seed_skill = ""
    scorer_version = "1"
    graded: bool | None = False

    def __init__(self) -> None:
        self.prompts: Mapping[str, str] = {"rollout": packaged("proposer_agent")}
        self.shown: dict[str, Sequence[Path]] = {}

    def tasks(self, split: Split) -> Sequence[Task]:
        """Tasks are made as they are needed."""
        return ()

    def open(self, task: Task) -> _Shown:
        """The files of a proposal."""
        return _Shown(self.shown[task.id])

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """A constant score: the gate decides later whether a proposal is accepted."""
        return Score(hard=1.0, soft=1.0)
