"""The files of a skill as one text: SKILL.md first, each further file behind a marker line with its path.

A run keeps a skill, and hands it on, as this text. A skill that is one document is that document, unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillopt.errors import SkillError
from skillopt.skill.paths import SKILL_FILE, path_problem

_MARKER = re.compile(r"\n<!-- SKILL_FILE ([^\n]+) -->\n")


def pack(text: str, files: Mapping[str, str]) -> str:
    """One text of SKILL.md and the other files by path; `unpack` gives back every byte."""
    return text + "".join(f"\n<!-- SKILL_FILE {path} -->\n{files[path]}" for path in sorted(files))


def unpack(whole: str) -> tuple[str, dict[str, str]]:
    """SKILL.md and the other files by path."""
    text, *rest = _MARKER.split(whole)
    return text, dict(zip(rest[::2], rest[1::2], strict=True))


def as_prompt(whole: str) -> str:
    """What a target without files is shown: SKILL.md, and below it the references that it mentions."""
    text, files = unpack(whole)
    linked = [path for path in files if path.endswith(".md") and path in text]
    linked.sort(key=text.index)
    shown = [f'<file path="{path}">\n{files[path].strip()}\n</file>' for path in linked]
    return "\n\n".join([text.rstrip(), *shown]) if shown else text


def check(text: str, files: Mapping[str, str]) -> None:
    """Raise `SkillError` for files that could not be kept and given back as they are."""
    for path, content in ((SKILL_FILE, text), *files.items()):
        if _MARKER.search(f"\n{content}\n"):
            raise SkillError(
                f"{path} holds a line `<!-- SKILL_FILE ... -->`, which stands between the files of a skill."
                " Remove that line."
            )
    for path in files:
        if problem := "is SKILL.md itself" if path == SKILL_FILE else path_problem(path):
            raise SkillError(f"The file {path!r} of a skill {problem}. Rename it.")
