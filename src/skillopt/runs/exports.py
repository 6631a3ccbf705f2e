"""Writes the public files of a run from its events; they are exports and never read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.events import (
    Aggregated,
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Reflected,
    RowFact,
    Selected,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.files import write_json, write_text
from skillopt.redact import Scrubber
from skillopt.runs.log import step_records
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Trajectory

_TEST_FOLDERS = {"seed": "test_eval_baseline", "best": "test_eval", "final": "test_eval_final"}


class Exports:
    """An event sink that keeps the folder's public layout up to date at each checkpoint."""

    def __init__(
        self,
        folder: Path,
        *,
        scrubber: Scrubber,
        trajectory: Callable[[str], Trajectory | None] | None = None,
    ) -> None:
        self._folder = folder
        self._scrubber = scrubber
        self._writes = True
        self._trajectory = trajectory
        """Given when `predictions/` is wanted: looks up a stored trajectory by its key."""
        self._open: list[Event] = []
        self._history: list[Event] = []

    def replay(self, history: Sequence[Event]) -> None:
        """Take in what was decided before; only the last checkpoint's files are written again, in case a
        crash left them unwritten.
        """
        last = max((at for at, event in enumerate(history) if isinstance(event, Checkpoint)), default=-1)
        for at, event in enumerate(history):
            self._writes = at >= last
            self(event)
        self._writes = True

    def __call__(self, event: Event) -> None:
        if event.id is None:
            return
        self._history.append(event)
        if isinstance(event, TestMeasured):
            for name, rows in event.rows.items():
                self._rows(_TEST_FOLDERS[name], rows, event.kinds)
        elif isinstance(event, Checkpoint):
            self._checkpoint(event)
            self._open = []
        else:
            self._open.append(event)

    def _checkpoint(self, event: Checkpoint) -> None:
        state = event.state
        self._text("best_skill.md", Document(state["best"]).rendered)
        self._text(f"skills/skill_v{state['step']:04d}.md", state["skill"])
        if event.kind == "baseline":
            for closed in self._open:
                if isinstance(closed, StageClosed):
                    self._rows("selection_eval_baseline", closed.rows)
        elif event.kind == "step":
            self._step(event.record)
        elif event.kind == "epoch":
            self._epoch(event.record["epoch"])
        records = step_records(self._history)
        self._json("history.json", records)
        if any("lr_decision" in record for record in records):
            told = [
                {"step": record["step"], **record["lr_decision"]}
                for record in records
                if "lr_decision" in record
            ]
            self._text(
                "lr_history.jsonl", "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told)
            )
        self._json("runtime_state.json", _runtime(state))

    def _step(self, record: Mapping[str, Any]) -> None:
        home = f"steps/step_{record['step']:04d}"
        for event in self._open:
            at = home + _half(event)
            if isinstance(event, StageClosed):
                self._rows(f"{at}/{'rollout' if event.stage == 'rollout' else 'selection_eval'}", event.rows)
            elif isinstance(event, Reflected):
                for patch in event.patches:
                    name = f"minibatch_{'fail' if patch.kind == 'failure' else 'succ'}_{patch.index:03d}.json"
                    self._json(f"{home}/patches/{name}", patch.model_dump(mode="json"))
            elif isinstance(event, Aggregated):
                self._json(f"{home}/merged_patch.json", {"edits": event.edits, "merge_calls": event.merges})
            elif isinstance(event, Selected):
                self._json(
                    f"{home}/ranked_edits.json",
                    {
                        "edits": event.edits,
                        "limit": event.limit,
                        "ranked": event.ranked,
                        "ranking_details": event.ranking,
                    },
                )
                if event.decision is not None:
                    self._json(f"{home}/lr_decision.json", event.decision)
            elif isinstance(event, Updated):
                self._text(f"{at}/candidate_skill.md", event.skill)
                self._json(f"{at}/edit_apply_report.json", event.outcomes)
                if event.rewrite is not None:
                    self._json(f"{at}/rewrite_result.json", event.rewrite)
                if event.notes is not None:
                    self._json(f"{at}/appendix_notes.json", event.notes)
            elif isinstance(event, Judged):
                self._json(
                    f"{at}/verdict.json", event.model_dump(mode="json", exclude={"time", "id", "type"})
                )
        self._json(f"{home}/trajectory_digest.json", _digest(record, self._open))
        self._json(f"{home}/step_record.json", record)

    def _epoch(self, epoch: int) -> None:
        home = f"slow_update/epoch_{epoch:02d}"
        for event in self._open:
            if isinstance(event, EpochEnded):
                self._json(f"{home}/slow_result.json", event.slow_update)
                if event.pairs:
                    self._json(f"{home}/comparison_pairs.json", event.pairs)
                self._json(f"meta_skill/epoch_{epoch:02d}/meta_skill_result.json", event.meta_skill)
            elif isinstance(event, StageClosed):
                before, _, part = event.place.rpartition("/")
                folder = {"older": "rollout_prev", "newer": "rollout_curr"}.get(part, "selection_eval")
                more = before.rpartition("/")[2]
                self._rows(
                    f"{home}/{folder}" + (f"/topup/{more}" if more.startswith("more-") else ""), event.rows
                )

    def _rows(self, name: str, rows: Sequence[RowFact], kinds: Mapping[str, str] | None = None) -> None:
        # Seconds differ between equal runs; the log has them, these files are the same in both.
        lines = [row.model_dump_json(exclude_none=True, exclude={"seconds"}) for row in rows]
        self._text(f"{name}/results.jsonl", "".join(line + "\n" for line in lines))
        scored = [row for row in rows if row.hard is not None]
        n = len(scored)
        figures: dict[str, Any] = {
            "n": n,
            "hard": sum(row.hard or 0.0 for row in scored) / n if n else None,
            "soft": sum(row.soft or 0.0 for row in scored) / n if n else None,
            "invalid": len(rows) - n,
        }
        if kinds:
            figures["task_types"] = _by_kind(scored, kinds)
        self._json(f"{name}/summary.json", figures)
        if self._trajectory is not None:
            for row in scored:
                found = None if row.rollout is None else self._trajectory(row.rollout)
                if found is not None:
                    turns = [{"role": message.role, "content": message.content} for message in found.messages]
                    self._json(
                        f"{name}/predictions/{_safe(self._scrubber.scrub(row.task))}/conversation.json", turns
                    )

    def _text(self, name: str, text: str) -> None:
        if self._writes:
            write_text(self._path(name), self._scrubber.scrub(text), durable=False)

    def _json(self, name: str, value: Any) -> None:
        if self._writes:
            write_json(self._path(name), self._scrubber.scrub_json(value), durable=False)

    def _path(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _by_kind(rows: Sequence[RowFact], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Total and mean per task type."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(kinds.get(row.task, ""), []).append(row.hard or 0.0)
    return {
        kind: {"total": len(scores), "hard": sum(scores) / len(scores)}
        for kind, scores in sorted(found.items())
    }


def _digest(record: Mapping[str, Any], events: Sequence[Event]) -> dict[str, Any]:
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
    n = record["rollout_n"]
    return {
        "step": record["step"],
        "action": record["action"],
        "n_total": n,
        "n_fail": sum(len(patch.tasks) for patch in failures),
        "failure_patterns": patterns,
    }


def _half(event: Event) -> str:
    """The folder of a half that was tried on its own, below its step's."""
    last = str(getattr(event, "place", "")).rpartition("/")[2]
    return f"/{last.replace('-', '_')}" if last.startswith("half-") else ""


def _runtime(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "last_completed_step": state["step"],
        "current_skill_path": f"skills/skill_v{state['step']:04d}.md",
        "current_score": state["score"],
        "current_origin": state["origin"],
        "best_skill_path": "best_skill.md",
        "best_score": state["best_score"],
        "best_step": state["best_step"],
        "best_origin": state["best_origin"],
    }


def _safe(name: str) -> str:
    """A task id as a folder name on every system."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in name)[:100].strip(". ") or "_"
