"""What lies in an agent's workspace: skill, files, images and documents; and what came back changed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.errors import Fault, SkillError
from skillopt.files import write_text
from skillopt.messages import Message
from skillopt.models.providers._agent_cli import write_image
from skillopt.skill.bundle import pack, unpack
from skillopt.skill.description import ListedSkill
from skillopt.skill.document import Document
from skillopt.skill.folder import Skill, copy_skill, write_files
from skillopt.skill.paths import SKILL_FILE
from skillopt.skill.spec import frontmatter_fields
from skillopt.tasks.task import Task

SKILL_NAME = "skillopt-target"
DESCRIPTION = "How tasks of this kind are done well. Use it for every task in this workspace."
MOST_BYTES = 8 << 20
"""Of all the files a rollout brings back; more than that is no answer to keep in a database."""
EVALS = "evals"
"""The folder of a skill that says what its work is judged by: an agent whose work is judged does not get it.
"""
DOCUMENTS = "documents"
"""The folder of a workspace with what may be read and not changed."""
_NO_BODY = "Nothing more is known of this skill here: work on the request without it."
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def installable(text: str) -> tuple[str, str]:
    """Name and text of a skill as agents take it: with its own frontmatter, or ours where it has none."""
    fields = frontmatter_fields(text)
    name, description = fields.get("name"), fields.get("description")
    if (
        isinstance(name, str)
        and isinstance(description, str)
        and _NAME.fullmatch(name)
        and len(name) <= 64
        and description.strip()
    ):
        return name, text
    return (
        SKILL_NAME,
        f"---\nname: {SKILL_NAME}\ndescription: {DESCRIPTION}\n---\n\n{Document(text).body.lstrip()}",
    )


def install_skill(text: str, folder: Path, seed: Skill | None) -> str | None:
    """Put the skill with its files where an agent finds it; its name, or None for an empty skill."""
    if not text.strip():
        return None
    main, files = unpack(text)
    name, main = installable(main)
    target = folder / name
    if target.exists():  # of a repository that brings this very skill along
        shutil.rmtree(target)
    target.mkdir(parents=True)
    if seed is None or seed.folder is None:
        write_text(target / SKILL_FILE, main)
        write_files(files, target)
        return name
    try:
        copy_skill(seed, pack(main, files), target, without=EVALS)
    except SkillError as error:
        raise Fault("contract", f"the skill cannot be installed: {error}") from error
    return name


def install_listed(others: Iterable[ListedSkill], folder: Path) -> None:
    """Put other skills beside it as an agent lists them: name and description, nothing of their bodies."""
    for one in others:
        head = {"name": one.name, "description": one.description}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        (folder / one.name).mkdir(parents=True)
        write_text(folder / one.name / SKILL_FILE, "\n".join(["---", *lines, "---", "", _NO_BODY, ""]))


def carried_digest(seed: Skill | None) -> str:
    """Hash of the files that a skill carries beside its text; empty where there are none."""
    if seed is None or seed.folder is None:
        return ""
    sha = hashlib.sha256()
    files = [
        path
        for path in sorted(seed.folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(seed.folder).parts
    ]
    carried = [
        path
        for path in files
        if path.relative_to(seed.folder).as_posix() not in (SKILL_FILE, *seed.document.files)
        and path.relative_to(seed.folder).parts[0] != EVALS
    ]
    for path in carried:
        sha.update(path.relative_to(seed.folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:16] if carried else ""


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
    """Copy the task's files and folders except `documents` into the workspace, write its images; the images'
    paths.
    """
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
