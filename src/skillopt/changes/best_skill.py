"""Writes the best skill of a run to where its seed came from or to where an agent looks, and takes that back.

What a file held before lies in the person's folder before the first file changes. A run folder may have come
with somebody's repository, so it is never believed about what to take back, and doubted about where to write.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import stat
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path, PurePath, PurePosixPath

from skillopt.agents import agents
from skillopt.changes.files import FileChange, followed
from skillopt.changes.journal import AppliedChange, ChangeJournal
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, check_links_stay, person_folder
from skillopt.runs.best import (
    BestSkill,
    FlaggedLine,
    advice,
    flagged_lines,
    installable,
    read_best,
    refuse_unnamed,
)
from skillopt.runs.notes import is_made_here, origin_folder
from skillopt.runs.reader import RunReader, is_run, read_run
from skillopt.skill.diff import unified
from skillopt.skill.document import SKILL_FILE, Document
from skillopt.skill.install import with_description
from skillopt.skill.steering import SteeringFlag

ZIP = "zip"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest a zip can hold: equal skills give equal archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What the files of a place are to hold."""

    skill: Path
    """SKILL.md, the one document, or the archive."""
    files: Mapping[Path, tuple[bytes, int | None]]
    """Content, and permissions where they matter; SKILL.md last, so that no agent finds half a skill."""
    learned: Mapping[str, str]
    """What the run wrote, by the name of its file."""
    seed: Mapping[Path, str | None] = field(default_factory=dict)
    """What the files held when the run began."""
    doubts: Sequence[str] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    """What adopting a run would do; nothing is written yet."""

    run: Path
    skill: Path
    changes: Sequence[FileChange]
    """None where the skill is adopted already."""
    diff: str
    claim: str
    doubts: Sequence[str]
    """Why a person should be asked twice."""
    remarks: Sequence[str]
    flagged: Sequence[FlaggedLine] = ()
    """Learned lines that are adopted only where each is named."""


def targets() -> dict[str, str]:
    """Who a skill can be written for, and where that agent looks below a project or the home folder."""
    known = [one for one in agents() if one.skills]
    return {name.replace("_", "-"): one.skills for one in known for name in (one.name, *one.aliases)}


def plan_adoption(
    run: Path,
    to: str | None = None,
    *,
    into: Path | None = None,
    name: str | None = None,
    description: str | None = None,
) -> AdoptionPlan:
    """What the best skill of a run changes where its seed came from, or at `to`: a folder or an .md file; or
    below the folder `into` where the agent `to` looks, or as NAME.zip there.

    Raises `UsageError` where there is nothing to adopt or no place for it, and `SkillError` for what an agent
    would not load.
    """
    check_links_stay(run)
    reader = read_run(run)
    best = read_best(reader)
    held: dict[str, str] = {}
    unknown: Sequence[FlaggedLine] = ()
    if to is not None and to in (*targets(), ZIP):
        place = place_for_agent(best, to, into or Path.cwd(), name=name, description=description)
        unknown = [] if is_made_here(run) else _unknown_files(best)
    elif into is not None or name is not None or description is not None:
        raise UsageError(f"--into, --user, --name and --description go with --to AGENT: {_agents()}.")
    else:
        place = _place_of_seed(best, reader, to)
        paths = {name: place.skill.parent / name for name in place.learned} | {SKILL_FILE: place.skill}
        held = {name: text for name, path in paths.items() if (text := _text(_content(path)))}
    flagged = flagged_lines(reader, place.learned, held)
    flagged += [replace(one, number=number) for number, one in enumerate(unknown, len(flagged) + 1)]
    return replace(plan_files(best, place), flagged=flagged)


def plan_files(best: BestSkill, place: Placement) -> AdoptionPlan:
    """What it takes that the files of a place hold what they are to hold."""
    changes, diffs, doubts = [], [], [*best.doubts, *place.doubts]
    for path, (data, mode) in place.files.items():
        held = _content(path)
        if held == data:
            continue
        file = followed(path)
        if held is not None and path not in place.seed:
            doubts.append(f"{path} is there and differs: adopting replaces it.")
        elif held is not None and Document(_text(held)).rendered_text != place.seed[path]:
            doubts.append(f"{path} was changed since the run read it: adopting replaces those changes.")
        changes.append(FileChange(file=file, before=held, after=data, mode=mode, made=file.missing()))
        if path != place.skill or path.suffix == ".md":
            diffs.append(unified(_text(held), _text(data), str(path), f"{best.run}:best"))
    return AdoptionPlan(
        run=best.run,
        skill=place.skill,
        changes=changes,
        diff="".join(diffs),
        claim=best.claim,
        doubts=doubts,
        remarks=[*best.remarks, *place.remarks],
    )


def adopt(plan: AdoptionPlan, *, taken: Collection[int] = ()) -> AppliedChange | None:
    """Carry a plan out, only while all files hold what the plan read; None where nothing had to change.
    `taken` are the flagged lines that a person named.
    """
    if not plan.changes:
        return None
    refuse_unnamed(plan.flagged, taken)
    journal, subject = _journal(), _subject(plan.run)
    with journal.alone():
        remedy = " ".join([*journal.recover(), "Look at it, then run the command again."])
        return journal.apply(
            subject, "adopt", plan.changes, reason=f"Run {plan.run}", time=_now(), remedy=remedy
        )


def undo_adoption(run: Path, *, force: bool = False) -> AppliedChange:
    """Give every file that the last adoption of a run changed its bytes of before.

    A file that was changed since is refused; with `force` it is put back too, and its text kept.
    """
    journal, subject = _journal(), _subject(run)
    with journal.alone():
        journal.recover()
        if not journal.history(subject).standing:
            raise UsageError(f"Nothing of {run} was adopted from here, so there is nothing to undo.")
        return journal.undo(subject, reason=f"Run {run}", time=_now(), force=force)


def is_adopted(run: Path) -> bool:
    """Whether an adoption of a run stands that can be undone."""
    with contextlib.suppress(UsageError):
        return bool(_journal().history(_subject(run)).standing)
    return False


def backups_of(run: Path) -> Path:
    """The folder of what the files held before the adoptions of a run."""
    return _journal().backups(_subject(run))


def _journal() -> ChangeJournal:
    return ChangeJournal(state=person_folder())


def _subject(run: Path) -> str:
    return origin_folder(run).relative_to(person_folder()).as_posix()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _agents() -> str:
    return ", ".join((*targets(), ZIP))


def _place_of_seed(best: BestSkill, reader: RunReader, to: str | None) -> Placement:
    """Where the seed of a run came from, or the place that the person named."""
    state, doubts = reader.fold.result, []
    if state is None or state.best == state.seed:
        raise UsageError(f"There is nothing to adopt: the best skill of {best.run} is its seed.")
    skill = _document(best.run, reader.config.get("env", {}).get("skill_init"), to)
    seed = reader.skills.get(state.seed)
    is_description = reader.config.get("train", {}).get("part") == "description"
    before = with_description(best.text, seed.text) if is_description else seed.rendered_text
    if to is None and not is_made_here(best.run):
        doubts.append(
            f"You did not train {best.run} here, or it was moved: it would write to {skill.resolve()} because"
            " its own settings say so. --to PATH names another place."
        )
    changed = {name: text for name, text in best.trained.items() if text != seed.files.get(name)}
    files: dict[Path, tuple[bytes, int | None]] = {
        skill.parent / name: (text.encode(), 0o755 if name.startswith("scripts/") else None)
        for name, text in changed.items()
    }
    return Placement(
        skill=skill,
        files={**files, skill: (best.text.encode(), None)},
        learned={SKILL_FILE: best.text, **changed},
        seed={**{skill.parent / name: seed.files.get(name) for name in changed}, skill: before},
        doubts=doubts,
    )


def _document(run: Path, seed: str | None, to: str | None) -> Path:
    """The file that SKILL.md, or the one document, goes to."""
    is_name = to is not None and PurePath(to).name == to and not Path(to).exists()
    if is_name and (close := difflib.get_close_matches(str(to), (*targets(), ZIP), n=1)):
        raise UsageError(f"No agent named {to!r}. Did you mean {close[0]!r}? A folder is ./{to}.")
    place = Path(to) if to is not None else None if seed is None else Path(seed)
    if place is None:
        raise UsageError(
            f"{run} started from the benchmark's own skill, so there is no place it belongs to. Name one:"
            f" --to FOLDER or FILE.md, or the agent that should find it: --to {_agents()}."
        )
    if to is None and any(is_run(folder) for folder in place.resolve().parents[:3]):
        raise UsageError(
            f"{run} started from {place}, a file of another run. Name the skill's own: --to PATH."
        )
    return place if place.suffix.lower() == ".md" else place / SKILL_FILE


def place_for_agent(
    best: BestSkill, agent: str, into: Path, *, name: str | None = None, description: str | None = None
) -> Placement:
    """Where an agent looks below a folder, or an archive in it."""
    chosen, text = installable(best, name, description)
    if not into.is_dir():
        raise UsageError(f"There is no folder {into} to write into.")
    files = {**best.files, PurePosixPath(SKILL_FILE): (text.encode(), 0o644)}
    remarks, learned = advice(best, chosen, text), {SKILL_FILE: best.text, **best.trained}
    if agent == ZIP:
        path = into / f"{chosen}.zip"
        archive = {path: (_zipped(chosen, files), None)}
        return Placement(skill=path, files=archive, learned=learned, remarks=remarks)
    home = into / targets()[agent] / chosen
    # The permissions of what is there stay; only a new program becomes one.
    wanted = {
        home / file: (data, mode if mode & stat.S_IXUSR else None) for file, (data, mode) in files.items()
    }
    there = {path for path in home.rglob("*") if path.is_file()} if home.is_dir() else set()
    others = sorted(there - set(wanted))
    remarks += [f"{path} is not part of this skill and is left alone." for path in others]
    return Placement(skill=home / SKILL_FILE, files=wanted, learned=learned, remarks=remarks)


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _content(path: Path) -> bytes | None:
    """What a file holds; None where nothing is."""
    with as_usage_error(path, "read", "What is in the way stays: move it, or choose another name."):
        try:
            path.stat()
        except FileNotFoundError:
            return None
    return followed(path).content()


def _unknown_files(best: BestSkill) -> list[FlaggedLine]:
    """The files that lie in the folder of somebody else's run and that the run did not learn."""
    reason = "a file of somebody else's run"
    return [
        FlaggedLine(
            number=0,
            file=str(path),
            line="the whole file",
            flags=(SteeringFlag(reason=reason, quoted=data[:110].decode(errors="replace")),),
        )
        for path, (data, _) in best.carried.items()
        if best.trained.get(str(path), "").encode() != data
    ]


def _zipped(name: str, files: Mapping[PurePosixPath, tuple[bytes, int]]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for file, (data, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(str(PurePosixPath(name) / file), _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose permissions the next line holds
            entry.external_attr = (stat.S_IFREG | (0o755 if mode & stat.S_IXUSR else 0o644)) << 16
            package.writestr(entry, data)
    return archive.getvalue()
