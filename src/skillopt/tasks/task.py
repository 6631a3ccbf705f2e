"""A task: what the target is asked, and what only the scorer knows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from skillopt.errors import TaskError
from skillopt.messages import Image

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. The target sees `prompt`, `images` and `files`; never `reference`."""

    id: str
    prompt: str
    reference: Any = None
    kind: str = ""
    """The task type, for per-type figures."""
    images: tuple[Image, ...] = ()
    files: tuple[Path, ...] = ()
    """Files and folders the target may read; their bytes are part of the task's content."""
    surroundings: str = ""
    """Digest of what the target meets in its environment beyond prompt and files: another room."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further fields a benchmark needs to score or to set up its environment."""

    def error(self, message: str) -> TaskError:
        """An error about this task, for the caller to raise."""
        return TaskError(f"Task {self.id!r} {message}")

    @property
    def content_hash(self) -> str:
        """Hash of everything the target sees: the same question under another id is the same task."""
        sha = hashlib.sha256(" ".join(self.prompt.split()).encode())
        for image in self.images:
            detail = f"\0{image.detail}" if image.detail else ""
            sha.update(b"\0image\0" + f"{image.data}{detail}".encode())
        for path in self.files:
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    name = file.relative_to(path.parent).as_posix()
                    sha.update(b"\0file\0" + name.encode() + b"\0" + file.read_bytes())
        if self.surroundings:
            sha.update(b"\0surroundings\0" + self.surroundings.encode())
        return sha.hexdigest()

    @property
    def full_hash(self) -> str:
        """Hash of the task with its reference: what makes two measurements of it comparable."""
        rest = json.dumps([self.id, self.reference, self.kind, self.data], sort_keys=True, default=str)
        return hashlib.sha256((self.content_hash + self.prompt + rest).encode()).hexdigest()
