"""Puts a skill where an agent finds it, with the files it carries."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from skillopt.errors import Fault, SkillError
from skillopt.files import write_text
from skillopt.skill.description import ListedSkill
from skillopt.skill.document import Document, pack, unpack
from skillopt.skill.folder import Skill, copy_skill, write_files
from skillopt.skill.paths import SKILL_FILE
from skillopt.skill.spec import frontmatter_fields

SKILL_NAME = "skillopt-target"
DESCRIPTION = "How tasks of this kind are done well. Use it for every task in this workspace."
EVALS = "evals"
"""The folder of a skill that says what its work is judged by: an agent whose work is judged does not get it.
"""
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
    sha, carried, trained = hashlib.sha256(), False, (SKILL_FILE, *seed.document.files)
    for path in sorted(seed.folder.rglob("*")):
        name = path.relative_to(seed.folder)
        is_part = ".git" not in name.parts and name.parts[0] != EVALS
        if path.is_file() and is_part and name.as_posix() not in trained:
            sha.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
            carried = True
    return sha.hexdigest()[:16] if carried else ""
