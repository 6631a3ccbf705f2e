"""Installs the best skill of a run where an agent looks for it, and overwrites nothing unasked."""

from __future__ import annotations

import io
import json
import re
import stat
import unicodedata
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from skillopt.agents import agents
from skillopt.changes.apply import FileChange, apply
from skillopt.changes.safe_file import followed
from skillopt.errors import SkillError, UnknownName, UsageError
from skillopt.files import as_usage_error, check_links_stay, read_text
from skillopt.runs.flagged import FlaggedLine, flagged_lines, refuse_unnamed
from skillopt.runs.log import DATABASE, EVENTS
from skillopt.runs.origin import is_made_here
from skillopt.runs.reader import RunReader, is_in_rounds, is_part, read_figures
from skillopt.skill.description import with_description
from skillopt.skill.document import Document
from skillopt.skill.layout import BOM
from skillopt.skill.paths import SKILL_FILE
from skillopt.skill.spec import Violation, file_violations, frontmatter_fields, violations
from skillopt.skill.steering import SteeringFlag

ZIP = "zip"
_BEST, _WHOLE = "best_skill.md", "best_skill"
CHANGED_BEST = f"{_BEST} is not the text that the run measured: it was changed since."
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest a zip can hold: equal skills give equal archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best skill of a run, with the files that belong to it and what a reader should know of it."""

    text: str
    name: str
    """What it is called where nobody says otherwise."""
    files: Mapping[PurePosixPath, tuple[bytes, int]]
    """Everything beside SKILL.md: content and permissions."""
    remarks: tuple[str, ...] = ()
    flagged: tuple[FlaggedLine, ...] = ()
    """Learned lines that go anywhere only where each is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One file after an export. `backup` holds what stood there before it was replaced."""

    path: Path
    state: Literal["written", "unchanged", "replaced"]
    backup: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export did. `others` are files of the skill's folder that were left alone."""

    name: str
    path: Path
    """The skill's folder, or the archive."""
    placed: tuple[Placed, ...]
    others: tuple[Path, ...] = ()
    remarks: tuple[str, ...] = ()


def targets() -> dict[str, str]:
    """Who a skill can be exported for, and where that agent looks below a project or the home folder."""
    known = [one for one in agents() if one.skills]
    return {name.replace("_", "-"): one.skills for one in known for name in (one.name, *one.aliases)}


def read_best(run: Path) -> Best:
    """The best skill of a run folder. Raises `UsageError` where there is none."""
    if not (run / EVENTS).is_file() or not (run / DATABASE).is_file():
        raise UsageError(
            f"{run} holds no run: there is no {EVENTS} and {DATABASE} in it. 'skillopt runs' lists runs."
        )
    if not (run / _BEST).is_file():
        raise UsageError(
            f"{run} has no {_BEST} yet: nothing was measured in it. Train first, or name another run."
        )
    check_links_stay(run)
    with as_usage_error(run / _BEST, "read", "Run the training command again.", SkillError):
        text = read_text(run / _BEST)
    read = read_figures(run)
    # A seed folder that was renamed between two sessions leaves two; the later one belongs to the text.
    whole = max(
        (path for path in (run / _WHOLE).glob("*") if path.is_dir()),
        key=lambda path: path.stat().st_mtime_ns,
        default=None,
    )
    trained, carried = _trained(read), {} if whole is None else _carried(whole)
    flagged = flagged_lines(read, _texts(text, trained))
    if not is_made_here(run):
        unknown = [path for path, (data, _) in carried.items() if trained.get(path, (b"",))[0] != data]
        flagged += [_flag_file(len(flagged) + n, path, carried[path][0]) for n, path in enumerate(unknown, 1)]
    return Best(
        text=text,
        name=_declared(text) or slug(whole.name if whole is not None else _seed_name(read)),
        files={**trained, **carried},
        remarks=(*_remarks(read, text), *doubts_about(read)),
        flagged=tuple(flagged),
    )


def _flag_file(number: int, path: PurePosixPath, content: bytes) -> FlaggedLine:
    """A file that lies in the folder of somebody else's run and that the run did not learn."""
    flag = SteeringFlag(reason="a file of somebody else's run", quoted=content[:110].decode(errors="replace"))
    return FlaggedLine(number=number, file=str(path), line="the whole file", flags=(flag,))


def _texts(text: str, files: Mapping[PurePosixPath, tuple[bytes, int]]) -> dict[str, str]:
    """SKILL.md and the files that were trained with it, by name."""
    return {SKILL_FILE: text, **{str(path): data.decode() for path, (data, _) in files.items()}}


def doubts_about(run: RunReader) -> list[str]:
    """Why the test does not speak for the best skill; none where that is the seed."""
    facts, state = run.facts(), run.fold.result
    if facts is None or state is None or state.best == state.seed:
        return []
    compared = facts.test.comparison
    in_folds = is_in_rounds(run.folder) and not is_part(run.folder)
    if compared is None:
        missing = "The folds were not all judged" if in_folds else "The sealed test was not opened"
        return [f"{missing}: {facts.test.why}."]
    if facts.significance != "no better":
        return []
    shown = "The folds show" if in_folds else "The sealed test shows"
    trained = "their own skills" if in_folds else "the best skill"
    scores = f"{compared.before:.3f} with the seed, {compared.after:.3f} with {trained}"
    return [f"{shown} no improvement: {scores}."]


def slug(text: str) -> str:
    """A text as a skill's name: lowercase letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-") or "skill"


def installable(best: Best, *, name: str | None = None, description: str | None = None) -> tuple[str, str]:
    """The name and the text of SKILL.md. Frontmatter is kept byte for byte; where there is none, one is
    written.

    Raises `SkillError` for what an agent would not load, with all the rules it breaks.
    """
    document = Document(best.text)
    chosen = best.name if name is None else name
    if not document.frontmatter:
        if description is None:
            raise SkillError(
                "The skill has no frontmatter, and agents load a skill by its description. Say what it does"
                " and when to use it: --description 'Answers ... Use it when ...'"
            )
        # A JSON text is a YAML text, whatever is in it: a name such as `on` or `123` stays one.
        fields = {"name": chosen, "description": description}
        lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items())
        head = document.newline.join(["---", *lines, "---", "", ""])
        text = Document(head + best.text.removeprefix(BOM)).text
    elif description is not None:
        raise SkillError(
            "The skill has its own frontmatter, which is kept as it is; --description is for a skill without"
            " one."
        )
    else:
        text = best.text
        own = _declared(text)
        if name is not None and own and own != name:
            raise SkillError(
                f"The skill calls itself {own!r} in its frontmatter, which is kept as it is, and its folder"
                " must have that name. Leave --name out."
            )
    broken = [one.message for one in violations(text, chosen) if one.severity == "error" and not _is_own(one)]
    if broken:
        correct = f" Correct the frontmatter in {_BEST} of the run and export again."
        remedy = correct if document.frontmatter else ""
        raise SkillError(f"Nothing was written, agents may refuse this skill: {' '.join(broken)}{remedy}")
    return chosen, text


def export(
    best: Best,
    to: str,
    into: Path,
    *,
    name: str | None = None,
    description: str | None = None,
    force: bool = False,
    taken: Collection[int] = (),
) -> Exported:
    """Put the skill where agent `to` looks for it below `into`, or as NAME.zip into it.

    A file that is there and differs is never overwritten, and then nothing at all is written; with `force` it
    is kept beside the new one as `.bak`. SKILL.md comes last, so that an agent never finds a skill whose
    files are missing. `taken` are the flagged lines that a person named; without all of them nothing goes.
    """
    refuse_unnamed(best.flagged, taken)
    if to not in (known := targets()) and to != ZIP:
        raise UnknownName("agent", to, (*known, ZIP))
    chosen, text = installable(best, name=name, description=description)
    if not into.is_dir():
        raise UsageError(f"There is no folder {into} to export into.")
    files = {**best.files, PurePosixPath(SKILL_FILE): (text.encode(), 0o644)}
    remarks = (
        *best.remarks,
        *(one.message for one in violations(text, chosen) if one.severity == "advice" or _is_own(one)),
        *(one.message for one in file_violations(text, {str(path) for path in best.files})),
    )
    if to == ZIP:
        path = into / f"{chosen}.zip"
        placed = _place({path: (_zipped(chosen, files), None)}, force=force)
        return Exported(name=chosen, path=path, placed=placed, remarks=remarks)
    home = into / known[to] / chosen
    # The permissions of what is there stay; only a new program is told that it is one.
    wanted = {
        home / file: (data, mode if mode & stat.S_IXUSR else None) for file, (data, mode) in files.items()
    }
    before = {path for path in home.rglob("*") if path.is_file()} if home.is_dir() else set()
    placed, others = _place(wanted, force=force), tuple(sorted(before - set(wanted)))
    return Exported(name=chosen, path=home, placed=placed, others=others, remarks=remarks)


def _is_own(violation: Violation) -> bool:
    """A key beyond the Agent Skills rules, such as an agent's extensions: it is kept, and said."""
    return violation.rule.startswith("unknown-key")


def _place(wanted: Mapping[Path, tuple[bytes, int | None]], *, force: bool) -> tuple[Placed, ...]:
    """Look at everything before the first write."""
    there = {path: _content(path) for path in wanted}
    differing = [path for path, content in there.items() if content not in (None, wanted[path][0])]
    if differing and not force:
        raise UsageError(
            f"Nothing was written, because this is there and differs: {', '.join(map(str, differing))}."
            " --force replaces it and keeps the old one as .bak; --into or --name puts the skill elsewhere."
        )
    backups = {path: free_name(path) for path in differing}
    kept = [FileChange(file=followed(to), before=None, after=there[path]) for path, to in backups.items()]
    changes = [
        FileChange(file=followed(path), before=there[path], after=data, mode=mode)
        for path, (data, mode) in wanted.items()
        if there[path] != data
    ]
    apply([*kept, *changes])
    return tuple(
        Placed(
            path=path,
            state="written" if there[path] is None else "replaced" if path in backups else "unchanged",
            backup=backups.get(path),
        )
        for path in wanted
    )


def _content(path: Path) -> bytes | None:
    """What a file holds; None where nothing is."""
    with as_usage_error(path, "read", "What is in the way stays: move it, or choose another name."):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def free_name(path: Path) -> Path:
    """A name for the backup that takes no earlier backup's place."""
    number = 1
    while (found := path.with_name(f"{path.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    return found


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


def _carried(whole: Path) -> dict[PurePosixPath, tuple[bytes, int]]:
    files = sorted(path for path in whole.rglob("*") if path.is_file() and path != whole / SKILL_FILE)
    names = [PurePosixPath(path.relative_to(whole).as_posix()) for path in files]
    contents = [(path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in files]
    return dict(zip(names, contents, strict=True))


def _trained(run: RunReader) -> dict[PurePosixPath, tuple[bytes, int]]:
    """The files of the best skill that the run itself wrote: a run that has not ended holds no others."""
    state = run.fold.state
    found = {} if state is None else run.skills.get(state.best).files
    return {
        PurePosixPath(path): (text.encode(), 0o755 if path.startswith("scripts/") else 0o644)
        for path, text in found.items()
    }


def _declared(text: str) -> str:
    """The name in the frontmatter; empty where there is none."""
    name = frontmatter_fields(text).get("name")
    return name.strip() if isinstance(name, str) else ""


def _seed_name(run: RunReader) -> str:
    """What the training command called the skill, else the benchmark."""
    given, started = run.config.get("env", {}).get("skill_init"), run.fold.started
    if given:
        return Path(given).parent.name if Path(given).name == SKILL_FILE else Path(given).stem
    return run.folder.resolve().name if started is None else started.benchmark


def _measured(run: RunReader, text: str) -> str:
    """The text of the best skill as the run measured it; of a description that was trained, with its body."""
    state = run.fold.result
    assert state is not None, "the caller knows"
    trained = run.skills.get(state.best)
    is_description = run.config.get("train", {}).get("part") == "description"
    return with_description(text, trained.text) if is_description else trained.rendered_text


def _remarks(run: RunReader, text: str) -> list[str]:
    said, state = [], run.fold.result
    if run.fold.started is not None and run.fold.started.simulated:
        said.append("Simulated: this skill was trained in the simulated world, not for a real agent.")
    if state is not None and _measured(run, text) != text:
        said.append(CHANGED_BEST)
    elif state is not None and state.best == state.seed:
        said.append("The best skill of this run is its seed: training found no better one.")
    if not (run.folder / "summary.json").is_file():
        said.append(
            "The run has not ended: this is its best skill so far, without the other files of a skill folder."
        )
    return said
