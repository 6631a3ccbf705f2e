"""Which runs the person trained on this machine, and for which skill; no run folder can say so itself.

A run folder may come with somebody's repository, so what adoption relies on lies in the person's folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from skillopt.files import person_folder, write_bytes

_NOTE = "run.json"


def origin_folder(run: Path) -> Path:
    """What the person's folder holds of a run: where it came from, and the receipts of its adoptions."""
    return person_folder() / "runs" / hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:16]


def note_origin(run: Path, skill: str | None) -> None:
    """Remember that the person trains here, and the skill that it starts from. Where the folder cannot be
    written, adoption asks for the place instead.
    """
    with contextlib.suppress(OSError, RuntimeError):
        write_bytes(origin_folder(run) / _NOTE, json.dumps(_said(run, skill)).encode(), mode=0o600)


def is_made_here(run: Path, skill: str | None) -> bool:
    """Whether the person trained this run on this machine, from this skill."""
    try:
        return bool(json.loads((origin_folder(run) / _NOTE).read_bytes()) == _said(run, skill))
    except (OSError, ValueError, RuntimeError):
        return False


def _said(run: Path, skill: str | None) -> dict[str, str | None]:
    return {"run": str(run.resolve()), "skill": None if skill is None else str(Path(skill).resolve())}
