"""Which runs the person trained on this machine, and with which settings; no run folder can say so itself.

A run folder may come with somebody's repository, so what adoption relies on lies in the person's folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from skillopt.files import person_folder, write_bytes

SETTINGS = "settings.json"
"""What a run keeps of its configuration."""
_NOTE = "run.json"


def origin_folder(run: Path) -> Path:
    """What the person's folder holds of a run: where it came from, and the receipts of its adoptions."""
    return person_folder() / "runs" / hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:16]


def note_origin(run: Path) -> None:
    """Remember that the person trains here, and the settings that were just written. Where the folder cannot
    be written, the run counts as somebody else's.
    """
    with contextlib.suppress(OSError, RuntimeError):
        write_bytes(origin_folder(run) / _NOTE, json.dumps(_identity(run)).encode(), mode=0o600)


def is_made_here(run: Path) -> bool:
    """Whether the person trained this run on this machine, and nobody changed its settings since."""
    try:
        return bool(json.loads((origin_folder(run) / _NOTE).read_bytes()) == _identity(run))
    except (OSError, ValueError, RuntimeError):
        return False


def _identity(run: Path) -> dict[str, str]:
    digest = hashlib.sha256((run / SETTINGS).read_bytes()).hexdigest()
    return {"run": str(run.resolve()), SETTINGS: digest}
