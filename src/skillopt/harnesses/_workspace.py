"""What lies in an agent's workspace beside the skill: files, images, documents; and what changed there."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.errors import Fault
from skillopt.messages import Message
from skillopt.models.agent_chat import write_image
from skillopt.tasks.task import Task

MOST_BYTES = 8 << 20
"""Of all the files a rollout brings back; more than that is no answer to keep in a database."""
DOCUMENTS = "documents"
"""The folder of a workspace with what may be read and not changed."""


def put_documents(documents: Sequence[Path], workspace: Path) -> Path:
    """Copy documents into a folder of the workspace, so that nothing of the user's is at stake; that folder.

    Not writable, but for root: a wall makes it so for everybody, else `are_untouched` tells.
    """
    folder = workspace / DOCUMENTS
    folder.mkdir()
    for path in documents:
        if (folder / path.name).exists():
            raise Fault(
                "contract", f"two documents are named {path.name!r}; a folder holds one. Rename one of them."
            )
        shutil.copyfile(path, folder / path.name)
        (folder / path.name).chmod(0o444)
    folder.chmod(0o555)
    return folder


def put_files(task: Task, workspace: Path, documents: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Copy the task's files but for `documents` into the workspace, write its images; their paths."""
    for path in task.files:
        if path in documents:
            continue
        target = workspace / path.name
        if target.exists():
            raise Fault(
                "contract",
                f"two files of task {task.id!r} are named {path.name!r}; a workspace holds one. Rename one of"
                " them.",
            )
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            target.write_bytes(path.read_bytes())
    return tuple(
        write_image(image, workspace / "attachments" / f"image-{n}")
        for n, image in enumerate(task.images, start=1)
    )


def snapshot(workspace: Path) -> dict[str, str]:
    """Every file of a workspace with what tells whether it changed; no links, no dot folders."""
    found = {}
    for path in sorted(workspace.rglob("*")):
        relative = path.relative_to(workspace)
        if path.is_symlink() or not path.is_file() or relative.parts[0].startswith("."):
            continue
        found[relative.as_posix()] = _stamp(path)
    return found


def _stamp(path: Path) -> str:
    """A hash of a file's content; of one too large to keep its size and times: agents make any size."""
    stat = path.stat()
    if stat.st_size > MOST_BYTES:
        return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except PermissionError:  # an agent may shut its files; they are in our folder
        path.chmod(0o600)
        return path.read_bytes()


def are_untouched(documents: Path, before: Mapping[str, str]) -> bool:
    """Whether the documents are those of `before`, a snapshot of the workspace."""
    part = f"{documents.name}/"
    return {f"{part}{name}": digest for name, digest in snapshot(documents).items()} == {
        name: digest for name, digest in before.items() if name.startswith(part)
    }


def changed(
    workspace: Path, before: Mapping[str, str], scrub: Callable[[str], str], documents: Path | None = None
) -> dict[str, str]:
    """The files made or changed since `before`, base64 encoded, without our credentials; no documents."""
    names = [name for name, digest in snapshot(workspace).items() if before.get(name) != digest]
    if documents is not None:
        names = [name for name in names if not name.startswith(f"{documents.name}/")]
    if sum((workspace / name).stat().st_size for name in names) > MOST_BYTES:
        raise Fault(
            "contract",
            f"the agent left more than {MOST_BYTES >> 20} MB of files in its workspace, which cannot be kept",
        )
    kept = {name: base64.b64encode(_content(workspace / name)).decode() for name in names}
    return {name: scrubbed_file(content, scrub) for name, content in kept.items()}


def scrubbed_file(content: str, scrub: Callable[[str], str]) -> str:
    """A file in base64, without our credentials where it is text."""
    try:
        return base64.b64encode(scrub(base64.b64decode(content).decode()).encode()).decode()
    except UnicodeDecodeError:
        return content


def as_prompt(system: str, task: Task, documents: Sequence[Path] = ()) -> str:
    """What the agent is told: how to answer, then the task, then which files and documents belong to it."""
    names = [path.name for path in task.files if path not in documents]
    parts = [*filter(None, [system.strip()]), task.prompt]
    if names:
        parts.append(f"Files of this task in the working folder: {', '.join(map(json.dumps, names))}")
    if documents:
        where = f"The documents of this task are in the folder `{DOCUMENTS}`."
        parts.append(f"{where} Read them; they cannot be changed.")
    return "\n\n".join(parts)


def each_text(messages: Iterable[Message], clean: Callable[[str], str]) -> tuple[Message, ...]:
    """The messages with every text of theirs as `clean` leaves it."""
    return tuple(
        replace(
            one,
            content=clean(one.content),
            tool_calls=tuple(replace(call, arguments=clean(call.arguments)) for call in one.tool_calls),
        )
        for one in messages
    )
