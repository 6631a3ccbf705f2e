"""A skill on disk: decides what counts as one, and how it is read, written and carried to another folder."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.errors import SkillError
from skillopt.files import as_usage_error, read_text, write_bytes, write_text
from skillopt.skill.document import (
    MOST_CHARS,
    MOST_CHARS_IN_ALL,
    MOST_FILES,
    SKILL_FILE,
    Document,
    clash,
    path_problem,
    unpack,
)
from skillopt.skill.layout import BOM
from skillopt.skill.spec import frontmatter_fields, new_violations


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as it was found: `folder` is None for a single file, `seedless` one without a text."""

    path: Path | None
    name: str
    document: Document
    folder: Path | None = None
    seedless: bool = False

    def others(self) -> frozenset[str]:
        """Paths of what lies in its folder beside the files of the document."""
        carried: list[Path] = []
        if self.folder is not None:
            _collect(self.folder, Path(), carried, carried)
        return frozenset({path.as_posix() for path in carried} - {*self.document.files})


def load_skill(path: Path | str, *, references: bool = True, scripts: bool = False) -> Skill:
    """Read a folder with SKILL.md, or one .md file. Raises `SkillError` with what to do; an empty file is a
    seedless start.

    `references` and `scripts` say which further files of the folder are part of the document, as far as they
    are plain text of moderate size; all others are carried as they are.
    """
    file, text = _read(Path(path))
    folder = file.parent if file.name == SKILL_FILE else None
    wanted = [name for name, is_wanted in (("references", references), ("scripts", scripts)) if is_wanted]
    try:
        document = Document(text, {} if folder is None else _texts(folder, wanted))
    except SkillError as error:
        raise SkillError(f"{file}: {error}") from error
    declared = frontmatter_fields(text).get("name")
    name = declared.strip() if isinstance(declared, str) else ""
    return Skill(
        path=file,
        name=name or (file.resolve().stem if folder is None else folder.resolve().name),
        document=document,
        folder=folder,
        seedless=not text.removeprefix(BOM).strip(),
    )


def write_skill(document_text: str, path: Path | str, *, before: str | None = None) -> None:
    """Write a skill's text whole or not at all.

    Raises `SkillError`, and writes nothing, when the text breaks an Agent Skills rule that `before` keeps.
    `before` is the text this one was made from, by default what the file holds now, if anything.
    """
    path = Path(path)
    file = path / SKILL_FILE if path.is_dir() else path
    if before is None and file.is_file():
        _, before = _read(file)
    if before is not None:
        folder_name = file.resolve().parent.name if file.name == SKILL_FILE else None
        added = new_violations(before, document_text, folder_name)
        if broken := [violation.message for violation in added if violation.severity == "error"]:
            raise SkillError(f"{file} is not written: {' '.join(broken)}")
    write_text(file, document_text)


def copy_skill(
    skill: Skill, rendered_text: str, destination_folder: Path | str, *, without: str = ""
) -> tuple[Path, ...]:
    """Write a skill folder: the files of the given text (`Document.rendered`), every other file of the skill
    carried over with its mode.

    The destination must be new or empty, and a text that breaks a rule which the skill keeps is refused
    before anything is written. Links to folders, links that lead out of the skill's folder and what is no
    regular file are left out and returned, relative to the skill's folder. A `.git` folder and a run's
    folder are not part of a skill, and `without` names another folder of it that stays behind.
    """
    destination = Path(destination_folder)
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise SkillError(
            f"{destination} already holds something; nothing was written. Choose a new or empty folder."
        )
    carried: list[Path] = []
    left_out: list[Path] = []
    if skill.folder is not None:
        # Listed in full before the first write, so that a destination inside the folder is not copied too.
        _collect(skill.folder, Path(), carried, left_out)
    text, files = unpack(rendered_text)
    write_skill(text, destination / SKILL_FILE, before=skill.document.text)
    for relative in (path for path in carried if path.parts[0] != without):
        assert skill.folder is not None
        target = destination / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(skill.folder / relative, target)
    write_files(files, destination)
    return tuple(left_out)


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write the other files of a skill below its folder; new scripts can be run, old modes stay."""
    for path, content in files.items():
        is_new_script = path.startswith("scripts/") and not (folder / path).exists()
        write_bytes(folder / path, content.encode(), mode=0o755 if is_new_script else None)


def _read(path: Path) -> tuple[Path, str]:
    with as_usage_error(path, "read", "Check its permissions.", SkillError):
        file = _skill_file(path)
        return file, read_text(file)


def _skill_file(path: Path) -> Path:
    if path.is_dir():
        file = path / SKILL_FILE
        if file.is_file():
            return file
        names = (entry.name for entry in sorted(path.iterdir()) if entry.name != SKILL_FILE)
        other = next((name for name in names if name.lower() == SKILL_FILE.lower()), None)
        below = next((file_below.parent for file_below in sorted(path.glob(f"*/{SKILL_FILE}"))), None)
        hint = f"Create {file}, or name a single .md file."
        if other or below:
            hint = f"Rename {other} to {SKILL_FILE}." if other else f"Did you mean {below}?"
        raise SkillError(f"The folder {path} holds no {SKILL_FILE}. {hint}")
    if not path.exists():
        raise SkillError(
            f"There is no skill at {path}. Name a folder with {SKILL_FILE} or one .md file; "
            "to start without a skill, create an empty .md file."
        )
    if path.suffix.lower() != ".md":
        raise SkillError(
            f"{path} is no Markdown file. A skill is a folder with {SKILL_FILE} or one file that ends in .md."
        )
    return path


def _texts(folder: Path, kinds: Sequence[str]) -> dict[str, str]:
    """The files of these kinds that can be trained, by path, as far as there is room for them."""
    carried: list[Path] = []
    _collect(folder, Path(), carried, [])
    texts: dict[str, str] = {}
    room = MOST_CHARS_IN_ALL
    for relative in (path for path in carried if path.parts[0] in kinds):
        path = relative.as_posix()
        size = (folder / path).stat().st_size
        if path_problem(path) or clash(path, texts) or (folder / path).is_symlink() or size > 4 * MOST_CHARS:
            continue
        try:
            text = read_text(folder / path)
            Document(text)
        except (UnicodeDecodeError, SkillError):
            continue
        if "\0" not in text and len(text) <= min(MOST_CHARS, room) and len(texts) < MOST_FILES:
            texts[path] = text
            room -= len(text)
    return texts


def _collect(root: Path, relative: Path, carried: list[Path], left_out: list[Path]) -> None:
    for entry in sorted((root / relative).iterdir()):
        name = relative / entry.name
        if name in (Path(SKILL_FILE), Path(".git")):
            continue
        if entry.is_symlink():
            if _leads_to_itself(entry):
                raise SkillError(f"{entry} is a link that leads to itself. Remove it.")
            target = entry.resolve()
            (carried if target.is_file() and target.is_relative_to(root.resolve()) else left_out).append(name)
        elif entry.is_dir():
            if not (entry / "run.db").is_file():  # a run beside the skill that it trains is no part of it
                _collect(root, name, carried, left_out)
        else:
            (carried if entry.is_file() else left_out).append(name)


def _leads_to_itself(link: Path) -> bool:
    """Whether `Path.resolve` would raise, as it does before Python 3.13."""
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False
