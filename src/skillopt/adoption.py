"""Writes the best skill of a run back to where its seed came from, and takes that back.

What a file held before lies in the person's folder before the first file changes. A run folder may have come
with somebody's repository, so it is never believed about what to take back, and doubted about where to write.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt.changes.apply import FileChange, apply, digest
from skillopt.changes.safe_file import SafeFile, followed
from skillopt.errors import UsageError
from skillopt.export import CHANGED_BEST, doubts_about, free_name, read_best
from skillopt.files import as_usage_error, write_bytes
from skillopt.runs.flagged import FlaggedLine, flagged_lines, refuse_unnamed
from skillopt.runs.origin import is_made_here, origin_folder
from skillopt.runs.reader import is_run, read_run
from skillopt.skill.description import with_description
from skillopt.skill.diff import unified
from skillopt.skill.document import Document
from skillopt.skill.paths import SKILL_FILE

_RECEIPT = "receipt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    """What adopting a run would do; nothing is written yet."""

    run: Path
    skill: Path
    """SKILL.md, or the one document."""
    changes: Sequence[FileChange]
    """None where the skill is adopted already."""
    diff: str
    claim: str
    doubts: Sequence[str]
    """Why a person should be asked twice."""
    remarks: Sequence[str] = ()
    flagged: Sequence[FlaggedLine] = ()
    """Learned lines that are adopted only where each is named."""


class AdoptedFile(BaseModel):
    """A file that was replaced. `backup` is the name of what it held; None where there was no file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    backup: str | None = Field(pattern=r"^\d+-[^/\\]+$")
    after: str
    made: int
    """Folders that were made for it."""


class AdoptionReceipt(BaseModel):
    """One adoption of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime
    skill: Path
    """SKILL.md, in whose folder every file lies, or the one document."""
    files: tuple[AdoptedFile, ...]


def plan_adoption(run: Path, to: Path | None = None) -> AdoptionPlan:
    """What the best skill of a run changes where its seed came from, or at `to`: a folder or an .md file.

    Raises `UsageError` where there is nothing to adopt, or no place for it.
    """
    best, reader = read_best(run), read_run(run)
    facts, state = reader.facts(), reader.fold.result
    if facts is None or state is None or state.best == state.seed:
        raise UsageError(f"There is nothing to adopt: the best skill of {run} is its seed.")
    named = reader.config.get("env", {}).get("skill_init")
    skill = _place(run, named, to)
    seed, trained = reader.skills.get(state.seed), reader.skills.get(state.best)
    wanted = {skill: best.text}
    expected: dict[Path, str | None] = {skill: seed.rendered_text}
    if reader.config.get("train", {}).get("part") == "description":
        expected[skill] = with_description(best.text, seed.text)
    for name, text in trained.files.items():
        if text != seed.files.get(name):
            wanted[skill.parent / name], expected[skill.parent / name] = text, seed.files.get(name)
    changes, diffs, doubts = [], [], list(doubts_about(reader))
    if CHANGED_BEST in best.remarks:
        doubts.append(CHANGED_BEST)
    texts: dict[str, str] = {}
    names = {path: _name(path, skill) for path in wanted}
    if to is None and not is_made_here(run):
        doubts.append(
            f"You did not train {run} here, or it was moved: it would write to {skill.resolve()} because its"
            " own settings say so. --to PATH names another place."
        )
    for path, text in wanted.items():
        file = followed(path)
        held = file.content()
        with as_usage_error(path, "read", ""):
            was = None if held is None else held.decode()
        if was is not None:
            texts[names[path]] = was
        if was == text:
            continue
        if was is not None and Document(was).rendered_text != expected[path]:
            doubts.append(f"{path} was changed since the run read it: adopting replaces those changes.")
        mode = 0o755 if path.parent.name == "scripts" else None
        changes.append(
            FileChange(file=file, before=held, after=text.encode(), mode=mode, made=file.missing())
        )
        diffs.append(unified(was or "", text, str(path), f"{run}:best"))
    return AdoptionPlan(
        run=run,
        skill=skill,
        changes=changes,
        diff="".join(diffs),
        claim=facts.claim,
        doubts=doubts,
        remarks=[one for one in best.remarks if one not in doubts],
        flagged=flagged_lines(reader, {names[path]: text for path, text in wanted.items()}, texts),
    )


def _name(path: Path, skill: Path) -> str:
    return SKILL_FILE if path == skill else path.relative_to(skill.parent).as_posix()


def adopt(plan: AdoptionPlan, *, taken: Collection[int] = ()) -> Path | None:
    """Carry a plan out: all files or none, and only while they hold what the plan read. Returns the folder of
    the backups; None where nothing had to change. `taken` are the flagged lines that a person named.
    """
    if not plan.changes:
        return None
    refuse_unnamed(plan.flagged, taken)
    above = origin_folder(plan.run)
    home = above / f"{1 + max((int(one.name) for one in _kept(plan.run)), default=0):03d}"
    files = []
    with as_usage_error(home, "written", "Nothing was changed."):
        for number, change in enumerate(plan.changes, 1):
            backup = None if change.before is None else f"{number}-{change.file.name}"
            if backup is not None and change.before is not None:
                write_bytes(home / backup, change.before, mode=0o600)
            after = digest(change.after) or ""
            files.append(AdoptedFile(path=change.file.path, backup=backup, after=after, made=change.made))
        now = datetime.now(timezone.utc)
        receipt = AdoptionReceipt(time=now, skill=followed(plan.skill).path, files=tuple(files))
        write_bytes(home / _RECEIPT, receipt.model_dump_json(indent=1).encode() + b"\n", mode=0o600)
    try:
        apply(plan.changes)
    except BaseException:  # also on Ctrl-C: no receipt for what did not happen
        shutil.rmtree(home, ignore_errors=True)
        raise
    return home


def undo_adoption(run: Path, *, force: bool = False) -> list[Path]:
    """Give every file that the last adoption of a run changed its bytes of before; returns their paths.

    A file that was changed since is refused; with `force` it is put back too, and its text kept beside it.
    """
    homes = _kept(run)
    if not homes:
        raise UsageError(f"Nothing of {run} was adopted from here, so there is nothing to undo.")
    home, changes, kept = homes[-1], [], []
    with as_usage_error(home, "read", "Put it back, or take the change back by hand."):
        receipt = _receipt(home)
        befores = [None if one.backup is None else (home / one.backup).read_bytes() for one in receipt.files]
    for one, before in zip(receipt.files, befores, strict=True):
        above = one.path.parents[one.made]  # the paths of a receipt are resolved
        file = SafeFile(root=above, parts=one.path.relative_to(above).parts)
        now = file.content()
        if now == before:  # a killed adoption did not come so far
            continue
        if digest(now) != one.after and not force:
            raise UsageError(
                f"{one.path} was changed since it was adopted; nothing was taken back. --force puts back what"
                f" it held before and keeps your text beside it."
            )
        if digest(now) != one.after and now is not None:
            kept.append(FileChange(file=followed(free_name(one.path)), before=None, after=now))
        changes.append(FileChange(file=file, before=now, after=before, made=one.made))
    apply([*kept, *changes])
    shutil.rmtree(home)
    return [change.file.path for change in changes]


def is_adopted(run: Path) -> bool:
    """Whether an adoption of a run stands that can be undone."""
    return bool(_kept(run))


def _kept(run: Path) -> list[Path]:
    """The adoptions of a run that stand, the oldest first."""
    return sorted(path.parent for path in origin_folder(run).glob(f"[0-9]*/{_RECEIPT}"))


def _receipt(home: Path) -> AdoptionReceipt:
    """What an adoption changed. Raises `UsageError` for a file outside of the adopted skill."""
    try:
        receipt = AdoptionReceipt.model_validate_json((home / _RECEIPT).read_bytes())
    except ValidationError as error:
        raise UsageError(f"{home / _RECEIPT} is damaged; take the change back by hand.") from error
    whole = receipt.skill.parent if receipt.skill.name == SKILL_FILE else receipt.skill
    for one in receipt.files:
        if whole not in (one.path, *one.path.parents):
            raise UsageError(f"{home / _RECEIPT} names {one.path}, which is no file of {whole}.")
    return receipt


def _place(run: Path, seed: str | None, to: Path | None) -> Path:
    """The file that SKILL.md, or the one document, goes to."""
    place = to if to is not None else None if seed is None else Path(seed)
    if place is None:
        raise UsageError(
            f"{run} started from the benchmark's own skill, so there is no place it belongs to. Name one:"
            " --to FOLDER or FILE.md; 'skillopt export' puts it where an agent looks."
        )
    if to is None and any(is_run(folder) for folder in place.resolve().parents[:3]):
        raise UsageError(
            f"{run} started from {place}, a file of another run. Name the skill's own: --to PATH."
        )
    return place if place.suffix.lower() == ".md" else place / SKILL_FILE
