"""A skill as agents meet it: the description by which they decide to load it, and the folder they load."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from skillopt.errors import Fault, SkillError
from skillopt.files import write_text
from skillopt.skill.document import SKILL_FILE, Document, pack, unpack
from skillopt.skill.folder import Skill, copy_skill, write_files
from skillopt.skill.layout import frontmatter_end
from skillopt.skill.spec import MAX_DESCRIPTION, frontmatter_fields

_KEY = "description"
_LINE = re.compile(r"^(\w[\w-]*):[ \t]*([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)
_LISTED_NAME = re.compile(r"[\w-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkill:
    """A skill as far as an agent shows it before it loads one."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillListing:
    """A skill whose description is trained, among the other skills that the agent lists."""

    skill: Skill
    others: tuple[ListedSkill, ...] = ()

    def whole(self, description: str) -> str:
        """The text of SKILL.md with that description."""
        return with_description(self.skill.document.text, description)


def on_one_line(description: str) -> str:
    """A description as agents list it."""
    return " ".join(description.split())


def description_of(skill: Skill) -> str:
    """The description, on one line. Raises `SkillError` where the skill has none."""
    description = _fields(skill.document.text).get(_KEY)
    if not isinstance(description, str) or not description.strip():
        raise SkillError(
            f"{skill.path or skill.name} has no description: an agent would never load it. Give it"
            " frontmatter with name and description: a line `---`, both, and a line `---`."
        )
    return on_one_line(description)


def with_description(text: str, description: str) -> str:
    """The text of a skill with another description, byte for byte the same elsewhere."""
    wanted = on_one_line(description)
    start, end = _span(text)
    end = start + len(text[start:end].rstrip())  # a block scalar ends behind its last line
    # A line as YAML has it: as it is, or as a JSON text, which is a YAML text whatever is in it.
    try:
        is_plain = yaml.safe_load(f"{_KEY}: {wanted}") == {_KEY: wanted}
    # A day that is none, 5,000 digits, `!!timestamp x`, `!!bool maybe`, brackets.
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, RecursionError):
        is_plain = False
    changed = text[:start] + (wanted if is_plain else json.dumps(wanted, ensure_ascii=False)) + text[end:]
    before, after = frontmatter_fields(text), frontmatter_fields(changed)
    if after.get(_KEY) != wanted or (before and after != {**before, _KEY: wanted}):
        raise SkillError(
            "The description cannot be replaced without changing how the rest of the frontmatter reads. Write"
            " it as one line, `description: ...`."
        )
    return changed


def problem_with(description: str) -> str:
    """Which rule of Agent Skills a description breaks, in words; empty where none."""
    shown = on_one_line(description)
    if not shown:
        return "a description may not be empty"
    if len(shown) > MAX_DESCRIPTION:
        return f"the description has {len(shown)} characters; {MAX_DESCRIPTION} are allowed"
    return "a description may not hold < or >" if "<" in shown or ">" in shown else ""


def listed_in(folders: Iterable[Path]) -> Iterator[ListedSkill]:
    """The skills below these folders that an agent would list, by name; of one name the first counts."""
    listed_by_name: dict[str, ListedSkill] = {}
    for file in (file for folder in folders for file in sorted(folder.glob(f"*/{SKILL_FILE}"))):
        try:
            fields = _fields(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        name, description = fields.get("name"), fields.get(_KEY)
        if isinstance(name, str) and isinstance(description, str):
            listed = ListedSkill(name=name, description=on_one_line(description))
            if _LISTED_NAME.fullmatch(name) and listed.description:
                listed_by_name.setdefault(name, listed)
    yield from (listed_by_name[name] for name in sorted(listed_by_name))


def _fields(text: str) -> dict[str, Any]:
    """The frontmatter. What is no YAML, as a colon without quotes, is read line by line, as agents do."""
    lines = _LINE.finditer(text, 0, frontmatter_end(text))
    return frontmatter_fields(text) or {line[1]: line[2] for line in lines}


def _span(text: str) -> tuple[int, int]:
    """Where the value of the description stands."""
    if not frontmatter_fields(text):
        return next(
            line.span(2) for line in _LINE.finditer(text, 0, frontmatter_end(text)) if line[1] == _KEY
        )
    begin = text.index("\n") + 1
    inside = text[begin : frontmatter_end(text)].removesuffix("\n").rpartition("\n")[0]
    node = yaml.compose(inside, Loader=yaml.BaseLoader)
    assert isinstance(node, yaml.MappingNode), "a description was read"
    value = next(value for key, value in node.value if key.value == _KEY)
    return begin + value.start_mark.index, begin + value.end_mark.index


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
    for other in others:
        head = {"name": other.name, "description": other.description}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        (folder / other.name).mkdir(parents=True)
        write_text(folder / other.name / SKILL_FILE, "\n".join(["---", *lines, "---", "", _NO_BODY, ""]))


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
