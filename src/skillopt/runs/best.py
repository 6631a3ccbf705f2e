"""The best skill of a run: its text and files, flagged lines, and how an agent takes it."""

from __future__ import annotations

import json
import re
import stat
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath

from skillopt.errors import SkillError, UsageError
from skillopt.files import as_usage_error, read_text
from skillopt.redact.printable import printable
from skillopt.runs.answers import stored_tasks
from skillopt.runs.notes import is_made_here
from skillopt.runs.reader import RunReader, is_in_rounds, is_part
from skillopt.skill.document import SKILL_FILE, Document
from skillopt.skill.install import with_description
from skillopt.skill.layout import BOM
from skillopt.skill.spec import Violation, file_violations, frontmatter_fields, violations
from skillopt.skill.steering import SteeringCheck, SteeringFlag, TextOrigins
from skillopt.tasks.protected import texts_of

_BEST, _WHOLE = "best_skill.md", "best_skill"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSkill:
    """The best skill of a run, with the files that belong to it and what a reader should know of it."""

    run: Path
    text: str
    name: str
    """What it is called where nobody says otherwise."""
    trained: Mapping[str, str] = field(default_factory=dict)
    """The files beside SKILL.md that the run itself wrote."""
    carried: Mapping[PurePosixPath, tuple[bytes, int]] = field(default_factory=dict)
    """Content and permissions of what lies in the folder of the best skill; a run that has not ended has no
    such folder.
    """
    claim: str = ""
    doubts: tuple[str, ...] = ()
    """Why a person should be asked twice before it goes anywhere."""
    remarks: tuple[str, ...] = ()

    @property
    def files(self) -> dict[PurePosixPath, tuple[bytes, int]]:
        """Content and permissions of everything beside SKILL.md."""
        trained = {
            PurePosixPath(path): (text.encode(), 0o755 if path.startswith("scripts/") else 0o644)
            for path, text in self.trained.items()
        }
        return {**trained, **self.carried}


def read_best(reader: RunReader) -> BestSkill:
    """The best skill of a run folder. Raises `UsageError` where there is none."""
    run = reader.folder
    if not (run / _BEST).is_file():
        raise UsageError(
            f"{run} has no {_BEST} yet: nothing was measured in it. Train first, or name another run."
        )
    with as_usage_error(run / _BEST, "read", "Run the training command again.", SkillError):
        text = read_text(run / _BEST)
    # A seed folder that was renamed between two sessions leaves two; the later one belongs to the text.
    whole = max(
        (path for path in (run / _WHOLE).glob("*") if path.is_dir()),
        key=lambda path: path.stat().st_mtime_ns,
        default=None,
    )
    view, result = reader.view(), reader.fold.result
    doubts = list(_doubts(reader))
    if result is not None and _measured(reader, text) != text:
        doubts.append(f"{_BEST} is not the text that the run measured: it was changed since.")
    return BestSkill(
        run=run,
        text=text,
        name=_declared(text) or slug(whole.name if whole is not None else _seed_name(reader)),
        trained={} if result is None else reader.skills.get(result.best).files,
        carried={} if whole is None else _carried(whole),
        claim="" if view is None else view.claim,
        doubts=tuple(doubts),
        remarks=tuple(_remarks(reader)),
    )


def _doubts(run: RunReader) -> Iterator[str]:
    """Why the test does not speak for the best skill; none where that is the seed."""
    view, state = run.view(), run.fold.result
    if view is None or state is None or state.best == state.seed:
        return
    compared = view.test.comparison
    in_folds = is_in_rounds(run.folder) and not is_part(run.folder)
    if compared is None:
        missing = "The folds were not all judged" if in_folds else "The sealed test was not opened"
        yield f"{missing}: {view.test.why}."
        return
    if view.significance != "no better":
        return
    shown = "The folds show" if in_folds else "The sealed test shows"
    trained = "their own skills" if in_folds else "the best skill"
    scores = f"{compared.before:.3f} with the seed, {compared.after:.3f} with {trained}"
    yield f"{shown} no improvement: {scores}."


def slug(text: str) -> str:
    """A text as a skill's name: lowercase letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-") or "skill"


def installable(best: BestSkill, name: str | None, description: str | None) -> tuple[str, str]:
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
        correct = f" Correct the frontmatter in {_BEST} of the run and try again."
        remedy = correct if document.frontmatter else ""
        raise SkillError(f"Nothing was written, agents may refuse this skill: {' '.join(broken)}{remedy}")
    return chosen, text


def advice(best: BestSkill, name: str, text: str) -> list[str]:
    """What is only advised about an installable skill, and its keys beyond the Agent Skills rules."""
    found = [one for one in violations(text, name) if one.severity == "advice" or _is_own(one)]
    return [one.message for one in (*found, *file_violations(text, set(map(str, best.files))))]


def _is_own(violation: Violation) -> bool:
    """A key beyond the Agent Skills rules, such as an agent's extensions: it is kept, and said."""
    return violation.rule.startswith("unknown-key")


def _carried(whole: Path) -> dict[PurePosixPath, tuple[bytes, int]]:
    files = sorted(path for path in whole.rglob("*") if path.is_file() and path != whole / SKILL_FILE)
    names = [PurePosixPath(path.relative_to(whole).as_posix()) for path in files]
    contents = [(path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in files]
    return dict(zip(names, contents, strict=True))


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


def _remarks(run: RunReader) -> Iterator[str]:
    state = run.fold.result
    if run.fold.started is not None and run.fold.started.simulated:
        yield "Simulated: this skill was trained in the simulated world, not for a real agent."
    if state is not None and state.best == state.seed:
        yield "The best skill of this run is its seed: training found no better one."
    if not (run.folder / "summary.json").is_file():
        yield (
            "The run has not ended: this is its best skill so far, without the other files of a skill folder."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlaggedLine:
    """One learned line with its flags; a person takes it by its number."""

    number: int
    file: str
    line: str
    flags: tuple[SteeringFlag, ...]

    def __str__(self) -> str:
        quoted = "; ".join(map(str, self.flags))
        return printable(f"flagged {self.number}, {self.file}: {self.line.strip()}\n  {quoted}")


def flagged_lines(
    run: RunReader, new: Mapping[str, str] | None = None, held: Mapping[str, str] | None = None
) -> list[FlaggedLine]:
    """The flagged ones of the lines that the best skill has and its seed has not. `new` are its files by name
    as they would be written; `held` are those that they would replace, whose text is the person's own.

    Of a run that was not trained here neither the seed nor the references count as the person's.
    """
    state = run.fold.result
    if state is None:
        return []
    seed, best = run.skills.get(state.seed), run.skills.get(state.best)
    is_ours = is_made_here(run.folder)
    held, before = held or {}, {SKILL_FILE: seed.text, **seed.files} if is_ours else {}
    references = (texts_of(task.expected) for task in stored_tasks(run.folder)) if is_ours else ()
    own = (*before.values(), *held.values(), *(text for texts in references for text in texts))
    check = SteeringCheck(TextOrigins(own=own))
    found: list[FlaggedLine] = []
    for file, text in (new or {SKILL_FILE: best.text, **best.files}).items():
        known = held.get(file, before.get(file, ""))
        for added in _added(known.splitlines(), text.splitlines()):
            flags = check.flags_by_part(dict(enumerate(added)), "\n".join(added))
            for place, line in enumerate(added):
                if flags[place]:
                    number = len(found) + 1
                    found.append(FlaggedLine(number=number, file=file, line=line, flags=flags[place]))
    return found


def refuse_unnamed(flagged: Iterable[FlaggedLine], taken: Collection[int]) -> None:
    """Raise `UsageError` where a flagged line is not among the numbers that a person named."""
    left = [one for one in flagged if one.number not in taken]
    if left:
        numbers = sorted({*taken, *(one.number for one in left)})
        named = " ".join(f"--take-flagged {number}" for number in numbers)
        raise UsageError(
            "Nothing was changed: the skill has learned lines that are flagged. Read them, then name each"
            f" that you want: {named}.\n" + "\n".join(map(str, left))
        )


def _added(old: Sequence[str], new: Sequence[str]) -> Iterator[list[str]]:
    """The blocks of lines that only the new text has."""
    for what, _, _, low, high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what in ("insert", "replace"):
            yield list(new[low:high])
