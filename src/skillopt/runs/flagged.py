"""The lines that a run's best skill gained and that a person must have read before they are theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from skillopt.errors import UsageError
from skillopt.redact.printable import printable
from skillopt.runs.answers import stored_tasks
from skillopt.runs.origin import is_made_here
from skillopt.runs.reader import RunReader
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.steering import SteeringCheck, SteeringFlag, TextOrigins
from skillopt.tasks.protected import texts_of


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
