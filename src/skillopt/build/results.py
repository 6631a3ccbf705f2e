"""Keeps what every evaluation in a folder has shown: `results.jsonl` and `eval_summary.json`.

What the folder knows lies in `run.db`, and both files are written from there: a later evaluation in the same
folder adds to them. A new row takes the place of the same row (target, skill's text, split, task, draw);
everything else stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillopt.build.assembly import OpenRun
from skillopt.build.comparison import Evaluated, Versus
from skillopt.files import write_json, write_text
from skillopt.runs.database import Database
from skillopt.tasks.task import Split

_ABOUT = ("target", "target_digest", "skill", "digest", "split")
_PAIR = ("target_digest", "skill", "digest", "against", "against_digest", "split", "repeats", "metric")
"""What identifies a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A cell that was asked for and could not be measured."""

    target: str
    skill: str
    split: Split
    why: str


def write_results(
    opened: OpenRun, results: Sequence[Evaluated], compared: Sequence[Versus], missing: Sequence[Missing] = ()
) -> None:
    """Add evaluations and comparisons to the folder, and say what could not be measured."""
    job, notes, folder = opened.job, opened.run.database, opened.folder
    scrub = job.scrubber.scrub_json
    digests = {(one.target, one.skill): one.digest for one in results}
    targets = {one.target: one.target_digest for one in results}
    now = [scrub(_summary(one)) for one in results]
    evaluations = _merged(
        notes, "eval/evaluations", now, ("target_digest", "skill", "digest", "split", "repeats")
    )
    pairs = []
    for pair in compared:
        of, against = digests[pair.target, pair.skill], digests[pair.target, pair.against]
        about = {"target_digest": targets[pair.target], "digest": of, "against_digest": against}
        pairs.append(scrub({**asdict(pair), **about}))
    versus = _merged(notes, "eval/comparisons", pairs, _PAIR)
    for one in results:
        about = {name: getattr(one, name) for name in _ABOUT}
        about["scorer"] = job.benchmark.scorer_version
        rows = [scrub({**about, **row.model_dump(exclude_none=True)}) for row in one.rows]
        _merged(notes, _block(one.target_digest, one.digest, one.split), rows, ("task", "draw"))
    blocks = dict.fromkeys(
        _block(entry["target_digest"], entry["digest"], entry["split"]) for entry in evaluations
    )
    lines = [json.dumps(row) for block in blocks for row in _noted(notes, block)]
    write_text(folder / "results.jsonl", "".join(line + "\n" for line in lines))
    # The public layout is one evaluation's figures; several at once have no single one.
    whole = {
        **(now[0] if len(now) == 1 and not missing else {}),
        "evaluations": evaluations,
        "comparisons": versus,
        "missing": [asdict(one) for one in missing],
        "spending": opened.spending(),
    }
    write_json(folder / "eval_summary.json", scrub(whole))


def _block(target: str, digest: str, split: str) -> str:
    return f"eval/rows/{target}/{digest}/{split}"


def _summary(one: Evaluated) -> dict[str, Any]:
    figures = {"n_items": one.n, "hard": one.hard, "soft": one.soft, "invalid": one.invalid}
    return {**{name: getattr(one, name) for name in _ABOUT}, "repeats": one.repeats, **figures}


def _merged(
    notes: Database, name: str, new: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> list[dict[str, Any]]:
    entries = {tuple(entry[key] for key in keys): entry for entry in _noted(notes, name)}
    entries |= {tuple(entry[key] for key in keys): dict(entry) for entry in new}
    notes.note(name, json.dumps(list(entries.values())))
    return list(entries.values())


def _noted(notes: Database, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notes.noted(name) or "[]")
    return found
