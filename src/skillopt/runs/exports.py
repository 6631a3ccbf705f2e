"""Writes the public files of a run from its events; they are exports and never read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from skillopt.evaluation.compare import row_means
from skillopt.events import (
    Aggregated,
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Minibatch,
    Reflected,
    Row,
    Selected,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.events.place import Place
from skillopt.events.records import EpochRecord, Fact, ReopenedRecord, StepRecord
from skillopt.files import append_json, write_json, write_text
from skillopt.runs.database import AnswerRow, Database
from skillopt.runs.log import Run
from skillopt.skill.edits import Outcome
from skillopt.tasks.task import Task

_EXPORTED = "exported"
"""The note of the last checkpoint whose files are written."""
_TEST_FOLDERS = {"seed": "test_eval_baseline", "best": "test_eval", "final": "test_eval_final"}


class Exports:
    """An event sink that keeps the folder's public layout up to date at each checkpoint."""

    def __init__(
        self,
        run: Run,
        tasks: Iterable[Task] = (),
        *,
        predictions: bool = False,
        whole: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`tasks` lend rows their questions; `predictions` also writes `predictions/`, one folder a task.
        `whole` makes a skill of what is trained, where that is a part of one.
        """
        self._run = run
        self._folder = run.folder
        self._scrubber = run.scrubber
        self._predictions = predictions
        self._whole = whole
        self._tasks = {task.id: task for task in tasks}
        self._open: list[Event] = []
        self._best = ""

    def catch_up(self) -> None:
        """Write what an earlier session decided and did not write any more; usually that is nothing."""
        exported, last = self._run.database.noted(_EXPORTED), self._run.last_checkpoint()
        for event in self._run.facts_since(exported):
            self(event)
        if last is not None and (last.id != exported or not (self._folder / "history.json").exists()):
            self._rewrite_history()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TestMeasured):
            for name, rows in event.rows.items():
                self._rows(_TEST_FOLDERS[name], rows, event.kinds)
        elif isinstance(event, Checkpoint):
            self._checkpoint(event)
            self._open = []
        else:
            self._open.append(event)

    def write_best(self, skill: str) -> None:
        """Write the skill of that digest to `best_skill.md`, if it is not there."""
        if skill != self._best:
            self._text("best_skill.md", self._whole(self._run.skills.get(skill).rendered_text))
            self._best = skill

    def _checkpoint(self, event: Checkpoint) -> None:
        state, skills = event.state, self._run.skills
        self.write_best(state.best)
        self._text(f"skills/skill_v{state.step:04d}.md", skills.get(state.skill).whole)
        if event.kind == "baseline":
            for closed in self._open:
                if isinstance(closed, StageClosed):
                    self._rows("selection_eval_baseline", closed.rows)
            self._rewrite_history()
        elif isinstance(event.record, StepRecord):
            self._step(event.record)
            self._append_history(event.record)
        elif isinstance(event.record, EpochRecord):
            self._epoch(event.record.epoch)
        elif isinstance(event.record, ReopenedRecord):
            self._rewrite_history()
        written = {
            "last_completed_step": state.step,
            "current_skill_path": f"skills/skill_v{state.step:04d}.md",
            "current_score": state.score,
            "current_origin": state.origin,
            "best_skill_path": "best_skill.md",
            **{name: getattr(state, name) for name in ("best_score", "best_step", "best_origin")},
        }
        self._json("runtime_state.json", written)
        self._run.database.note(_EXPORTED, event.id or "")

    def _append_history(self, record: StepRecord) -> None:
        written = self._scrubber.scrub_json(record.model_dump(mode="json"))
        if not append_json(self._path("history.json"), written):
            self._rewrite_history()
        elif record.lr_decision is not None:
            with self._path("lr_history.jsonl").open("a", encoding="utf-8", newline="\n") as file:
                file.write(self._scrubber.scrub(_limit_line(record)))

    def _rewrite_history(self) -> None:
        records = self._run.steps()
        self._json("history.json", [record.model_dump(mode="json") for record in records])
        limits = [_limit_line(record) for record in records if record.lr_decision is not None]
        if limits or (self._folder / "lr_history.jsonl").exists():
            self._text("lr_history.jsonl", "".join(limits))

    def _step(self, record: StepRecord) -> None:
        home = f"steps/step_{record.step:04d}"
        for event in self._open:
            at = home + _candidate_folder(event)
            if isinstance(event, StageClosed):
                self._rows(f"{at}/{'rollout' if event.stage == 'rollout' else 'selection_eval'}", event.rows)
            elif isinstance(event, Reflected):
                for patch in event.patches:
                    name = f"minibatch_{'fail' if patch.kind == 'failure' else 'succ'}_{patch.index:03d}.json"
                    self._json(f"{home}/patches/{name}", _public_patch(patch))
            elif isinstance(event, Aggregated):
                merged = [edit.as_json() for edit in event.edits]
                self._json(f"{home}/merged_patch.json", {"edits": merged, "merge_calls": event.merges})
            elif isinstance(event, Selected):
                self._json(
                    f"{home}/ranked_edits.json",
                    {
                        "edits": [edit.as_json() for edit in event.edits],
                        "limit": event.limit,
                        "ranked": event.ranked,
                        "ranking_details": _dump(event.ranking),
                    },
                )
                if event.decision is not None:
                    self._json(f"{home}/lr_decision.json", _dump(event.decision))
            elif isinstance(event, Updated):
                self._text(f"{at}/candidate_skill.md", self._run.skills.get(event.skill).whole)
                self._json(f"{at}/edit_apply_report.json", [_public_edit(one) for one in event.outcomes])
                if event.rewrite is not None:
                    problem = {"problem": event.rewrite.problem} if event.rewrite.problem else {}
                    self._json(f"{at}/rewrite_result.json", {**event.rewrite.as_json(), **problem})
                if event.notes is not None:
                    self._json(f"{at}/appendix_notes.json", event.notes)
            elif isinstance(event, Judged):
                self._json(
                    f"{at}/verdict.json", event.model_dump(mode="json", exclude={"time", "id", "type"})
                )
        self._json(f"{home}/trajectory_digest.json", _digest(record, self._open))
        self._json(f"{home}/step_record.json", _dump(record))

    def _epoch(self, epoch: int) -> None:
        home = f"slow_update/epoch_{epoch:02d}"
        for event in self._open:
            if isinstance(event, EpochEnded):
                self._json(f"{home}/slow_result.json", _dump(event.slow_update))
                if event.pairs:
                    self._json(f"{home}/comparison_pairs.json", [_dump(pair) for pair in event.pairs])
                self._json(f"meta_skill/epoch_{epoch:02d}/meta_skill_result.json", _dump(event.meta_skill))
            elif isinstance(event, StageClosed):
                arm, sample = event.place.arm, event.place.sample
                folder = {"older": "rollout_prev", "newer": "rollout_curr"}.get(arm, "selection_eval")
                self._rows(f"{home}/{folder}{f'/topup/more-{sample}' if sample else ''}", event.rows)

    def _rows(self, name: str, rows: Sequence[Row], kinds: Mapping[str, str] | None = None) -> None:
        lines = public_rows(rows, self._run.database, self._tasks)
        self._text(f"{name}/results.jsonl", "".join(to_json(line).decode() + "\n" for line in lines))
        scored, mean = [row for row in rows if row.hard is not None], row_means(rows)
        figures: dict[str, Any] = {
            "n": mean.n,
            "hard": mean.hard,
            "soft": mean.soft,
            "invalid": len(rows) - mean.n,
        }
        if kinds:
            figures["task_types"] = _by_kind(scored, kinds)
        self._json(f"{name}/summary.json", figures)
        if self._predictions:
            for row in scored:
                found = None if row.rollout is None else self._run.database.finished(row.rollout)
                if found is not None:
                    messages = found[1].messages
                    turns = [{"role": message.role, "content": message.content} for message in messages]
                    self._json(
                        f"{name}/predictions/{_safe(self._scrubber.scrub(row.task))}/conversation.json", turns
                    )

    def _text(self, name: str, text: str) -> None:
        write_text(self._path(name), self._scrubber.scrub(text), durable=False)

    def _json(self, name: str, value: Any) -> None:
        write_json(self._path(name), self._scrubber.scrub_json(value), durable=False)

    def _path(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def public_rows(rows: Iterable[Row], database: Database, tasks: Mapping[str, Task]) -> list[dict[str, Any]]:
    """What `results.jsonl` says of rows: score and reason, question and answer.

    Seconds are left out: they differ between equal runs; the log has them.
    """
    rows = list(rows)
    answers = database.answers(row.rollout for row in rows if row.rollout is not None)
    return [
        {
            **_public(row, answers.get((row.rollout or "", row.attempt)), tasks.get(row.task)),
            **{key: one for key, one in asdict(row).items() if one is not None and key != "seconds"},
        }
        for row in rows
    ]


def _public(row: Row, answer: AnswerRow | None, task: Task | None) -> dict[str, Any]:
    public: dict[str, Any] = {"id": row.task}
    if task is not None:
        public |= {"question": task.prompt, "task_type": task.kind}
    if answer is not None:
        public |= {"predicted_answer": answer.text, "response": answer.text, "n_turns": answer.calls}
    reason = row.invalid or row.failure or ("" if row.hard else row.detail)
    return {**public, "agent_ok": row.invalid is None, "fail_reason": reason}


def _by_kind(rows: Sequence[Row], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Total and mean per task type."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(kinds.get(row.task, ""), []).append(row.hard or 0.0)
    return {
        kind: {"total": len(scores), "hard": sum(scores) / len(scores)}
        for kind, scores in sorted(found.items())
    }


def _digest(record: StepRecord, events: Sequence[Event]) -> dict[str, Any]:
    """What the step saw go wrong: the analysts' patterns, each with the tasks its analyst was shown."""
    failures = [
        patch
        for event in events
        if isinstance(event, Reflected)
        for patch in event.patches
        if patch.kind == "failure"
    ]
    patterns = [
        {**pattern, "task_ids": patch.tasks}
        for patch in failures
        for pattern in patch.summary
        if isinstance(pattern, Mapping)
    ]
    return {
        "step": record.step,
        "action": record.action,
        "n_total": record.rollout_n,
        "n_fail": sum(len(patch.tasks) for patch in failures),
        "failure_patterns": patterns,
    }


def _candidate_folder(event: Event) -> str:
    """The folder of a further candidate, below its step's."""
    place = getattr(event, "place", None)
    return f"/candidate_{place.candidate}" if isinstance(place, Place) and place.candidate else ""


def _public_patch(patch: Minibatch) -> dict[str, Any]:
    """An analyst's reply in the public words, and in ours."""
    summary = "failure_summary" if patch.kind == "failure" else "success_patterns"
    edits = [edit.as_json() for edit in patch.edits]
    return {
        "source_type": patch.kind,
        "batch_size": len(patch.tasks),
        summary: patch.summary,
        "patch": {"reasoning": "", "edits": edits},
        **_dump(patch),
        "edits": edits,
    }


def _public_edit(outcome: Outcome) -> dict[str, Any]:
    """What became of an edit, with the edit's own fields beside it."""
    return {**outcome.edit.as_json(), "status": outcome.state, **outcome.as_json()}


def _dump(fact: Fact | None) -> Any:
    return None if fact is None else fact.model_dump(mode="json")


def _limit_line(record: StepRecord) -> str:
    return json.dumps({"step": record.step, **_dump(record.lr_decision)}, ensure_ascii=False) + "\n"


def _safe(name: str) -> str:
    """A task id as a folder name on every system."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in name)[:100].strip(". ") or "_"
