"""Edits: decides which changes of a patch may happen to a document, and why the others may not.

All targets are resolved against the document as it was before the patch, so what an edit means does not
depend on the edits before it. An edit changes the one file that its path names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from skillopt.errors import SkillError, suggest
from skillopt.skill.assembly import Change, rebuild
from skillopt.skill.document import (
    MOST_CHARS,
    MOST_CHARS_IN_ALL,
    MOST_FILES,
    ONE_DOCUMENT,
    SKILL_FILE,
    Document,
    EditableFiles,
    clash,
    path_problem,
    problem_with,
    to_lf,
)

OPS: tuple[str, ...] = ("append", "insert_after", "replace", "delete")
SUGGEST, REWRITE = "suggest", "rewrite"
"""Ops that change no place of a text: what a rewrite should do, and a whole skill, as its content."""
_WRITTEN = {
    SUGGEST: ("type", "title", "motivation", "instruction"),
    REWRITE: ("title", "change_summary", "new_skill"),
}
"""How prompts and records name what these two say, in order; the last is the content."""
State = Literal[
    "applied",
    "unmatched",
    "ambiguous",
    "protected",
    "conflict",
    "duplicate",
    "merged",
    "over_limit",
    "invalid",
    "unproven",
    "covered",
    "harmful",
]


@dataclass(frozen=True, slots=True)
class Edit:
    """One proposed change: whatever an optimizer proposes is one, and ends in one state. A target of `append`
    and a content of `delete` are ignored.
    """

    op: str
    target: str = ""
    content: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Every further key of the proposal: support_count, source_type, rationale."""
    id: str = ""
    problem: str = ""
    """Why the proposal could not be read; such an edit ends as `invalid`."""
    path: str = SKILL_FILE
    """The file of the skill that it changes; `append` to one that is not there makes it."""

    @property
    def adds_prose(self) -> bool:
        """Whether it adds lines of Markdown: a skill holds none of them twice."""
        adds = self.op in ("append", "insert_after") and not self.problem and bool(self.content.strip())
        return adds and self.path.endswith(".md")

    def as_json(self) -> dict[str, Any]:
        """The JSON object prompts show: `{op, path?, target?, content?}` and the evidence."""
        if names := _WRITTEN.get(self.op):
            fields = {names[-1]: self.content, **self.evidence}
            return {
                name: fields[name] for name in (*names, *fields) if fields.get(name) or name in self.evidence
            }
        shown: dict[str, Any] = {"op": self.op}
        if self.path != SKILL_FILE:
            shown["path"] = self.path
        if self.op != "append" and (self.target or self.op in OPS):
            shown["target"] = self.target
        if self.op != "delete" and (self.content or self.op in OPS):
            shown["content"] = self.content
        return shown | {key: value for key, value in self.evidence.items() if key not in _KEYS}

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two edits exact copies of each other."""
        target = "" if self.op == "append" else to_lf(self.target)
        return self.op, self.path, target, "" if self.op == "delete" else to_lf(self.content)


Patch: TypeAlias = tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The one state a proposal ended in, with the reason in words (empty when applied)."""

    edit: Edit
    state: State
    reason: str = ""

    @property
    def id(self) -> str:
        """That of the edit."""
        return self.edit.id

    def as_json(self) -> dict[str, Any]:
        """The JSON object that files of a run show."""
        return {"id": self.id, "state": self.state, "reason": self.reason, "edit": self.edit.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """The document after a patch, and one outcome per edit in patch order."""

    document: Document
    outcomes: tuple[Outcome, ...]


def parse_edit(obj: object, id: str, files: EditableFiles = ONE_DOCUMENT) -> Edit:
    """Read one proposed edit. Never raises: what cannot be read will end as `invalid`, with the reason."""
    if not isinstance(obj, Mapping):
        return Edit(op="", id=id, problem=f"an edit is a JSON object, this is {_shown(obj)}")
    op, target, content = obj.get("op"), obj.get("target"), obj.get("content")
    path = obj.get("path") or SKILL_FILE
    problem = files.problem(path)
    if not isinstance(op, str):
        problem = f"op is {_shown(op)}; it is one of {', '.join(OPS)}"
    elif op not in OPS:
        problem = f"no op is named {op[:40]!r}. {suggest(op, OPS)}"
    elif op != "append" and not isinstance(target, str):
        problem = f"{op} needs target to be a text, it is {_shown(target)}"
    elif op != "delete" and not isinstance(content, str):
        problem = f"{op} needs content to be a text, it is {_shown(content)}"
    return Edit(
        op=op if isinstance(op, str) else "",
        target=target if isinstance(target, str) else "",
        content=content if isinstance(content, str) else "",
        evidence={str(key): value for key, value in obj.items() if key not in _KEYS},
        id=id,
        problem=problem,
        path=path if isinstance(path, str) else SKILL_FILE,
    )


def apply(patch: Sequence[Edit], document: Document) -> PatchResult:
    """Apply what may be applied. Protected bytes are never touched, and every edit ends in
    exactly one state.

    A file that `append` makes is named in SKILL.md: where no edit does, a line is added that does.
    """
    outcomes: dict[int, Outcome] = {}
    by_file: dict[str, dict[int, Edit]] = {}
    seen: set[tuple[str, ...]] = set()
    for index, edit in enumerate(patch):
        if problem := _problem(edit):
            outcomes[index] = Outcome(edit=edit, state="invalid", reason=problem)
        elif edit.identity in seen:
            reason = "an exact copy of an earlier edit of this patch"
            outcomes[index] = Outcome(edit=edit, state="duplicate", reason=reason)
        else:
            seen.add(edit.identity)
            by_file.setdefault(edit.path, {})[index] = edit
    result, ended = _to_file(document, by_file.pop(SKILL_FILE, {}))
    outcomes |= ended
    for path, edits in sorted(by_file.items()):
        result, ended = _to_other_file(result, path, edits)
        outcomes |= ended
    return PatchResult(document=result, outcomes=tuple(outcomes[index] for index in range(len(patch))))


def _to_file(document: Document, edits: Mapping[int, Edit]) -> tuple[Document, dict[int, Outcome]]:
    """The document with those of the edits that its own text can take."""
    outcomes: dict[int, Outcome] = {}
    changes: list[Change] = []
    finder = _Finder(document) if edits else None

    def ends(index: int, state: State, reason: str = "") -> None:
        outcomes[index] = Outcome(edit=edits[index], state=state, reason=reason)

    for index, edit in edits.items():
        assert finder is not None
        found = finder.resolve(index, edit)
        if not isinstance(found, Change):
            ends(index, *found)
        elif clashing := next((other for other in changes if found.conflicts_with(other)), None):
            where = f"edit {clashing.index + 1} of this patch"
            ends(index, "conflict", f"meets the text that {where} changes or is placed by")
        else:
            changes.append(found)

    result, kept, broken = _settle(document, changes)
    for change in kept:
        ends(change.index, "applied")
    for change in broken:
        # Neither target nor content alone is at fault, but together they move a fence or a protected part.
        reason = "would change how a code fence or a protected part is read"
        ends(change.index, "invalid" if change.inserts else "protected", reason)
    return result, outcomes


def _to_other_file(
    document: Document, path: str, edits: Mapping[int, Edit]
) -> tuple[Document, dict[int, Outcome]]:
    """The skill with a file changed or made, or as it was where the file cannot be."""
    before, files = document.files.get(path), dict(document.files)

    def all_end(state: State, reason: str, which: Mapping[int, Edit] = edits) -> dict[int, Outcome]:
        return {index: Outcome(edit=edit, state=state, reason=reason) for index, edit in which.items()}

    lost: dict[int, Outcome] = {}
    if before is None:
        if other := clash(path, files):
            return document, all_end("invalid", f"{path} cannot lie beside {other}")
        need_text = {index: edit for index, edit in edits.items() if edit.op != "append"}
        lost = all_end("unmatched", f"there is no file {path}", need_text)
        edits = {index: edit for index, edit in edits.items() if index not in lost}
    try:
        changed, outcomes = _to_file(Document(before or ""), edits)
    except SkillError as error:
        return document, all_end("protected", f"{path} cannot be changed: {error}")
    outcomes |= lost
    if changed.text == (before or ""):
        return document, outcomes
    files[path] = changed.text
    if problem := _too_much(path, document.files, files):
        return document, outcomes | all_end("invalid", problem)
    if before is None and path not in document.text:
        link = Edit("append", content=f"- [{path}]({path}): {_title(path, changed.text)}")
        linked, linking = _to_file(document, {0: link})
        if linking[0].state != "applied":
            return document, outcomes | all_end(
                "invalid", f"{SKILL_FILE} cannot name it: {linking[0].reason}"
            )
        document = linked
    return replace(document, files=files), outcomes


def _too_much(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why the files would be too many or too long, unless they already were."""
    if len(after) > max(MOST_FILES, len(before)):
        return f"a skill has at most {MOST_FILES} files beside {SKILL_FILE}"
    if len(after[path]) > max(MOST_CHARS, len(before.get(path, ""))):
        return f"{path} would have {len(after[path]):,} characters; {MOST_CHARS:,} are allowed"
    total = sum(map(len, after.values()))
    if total > max(MOST_CHARS_IN_ALL, sum(map(len, before.values()))):
        return f"the files would have {total:,} characters in all; {MOST_CHARS_IN_ALL:,} are allowed"
    return ""


def _title(path: str, text: str) -> str:
    """What a file is about: its first heading, else its name."""
    heading = next((line.strip("# \t") for line in text.splitlines() if line.startswith("# ")), "")
    return heading[:100] or path.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " ")


_KEYS = frozenset({"op", "target", "content", "path"})


def _shown(value: object) -> str:
    return "missing" if value is None else f"{type(value).__name__} {repr(value)[:60]}"


def _problem(edit: Edit) -> str:
    if edit.problem:
        return edit.problem
    if edit.op not in OPS:
        return f"no op is named {edit.op[:40]!r}. {suggest(edit.op, OPS)}"
    if problem := path_problem(edit.path):
        return f"path {edit.path[:80]!r} {problem}"
    if edit.op != "append" and not edit.target:
        return "the target is empty"
    if edit.op == "delete":
        return ""
    if edit.op != "replace" and not edit.content.strip():
        return "there is nothing to insert"
    problem = problem_with(to_lf(edit.content))
    return f"the content {problem}" if problem else ""


class _Finder:
    """Finds targets in one document, CRLF matched as LF, and says which spans are allowed."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._text = document.text.replace("\r\n", "\n")
        # Offsets (in the LF text) of the newlines that were CRLF: each of them shifts what follows by one.
        self._shifts: list[int] = []
        position = document.text.find("\r\n")
        while position >= 0:
            self._shifts.append(position - len(self._shifts))
            position = document.text.find("\r\n", position + 2)
        self._fence_starts = [line.start for line in document.layout.fences]

    def resolve(self, index: int, edit: Edit) -> Change | tuple[State, str]:
        """Where an edit changes the document, or the state it ends in."""
        document = self._document
        content = to_lf(edit.content).replace("\n", document.newline)
        if edit.op == "append":
            point = document.append_point
            return Change(index=index, start=point, end=point, content=content, inserts=True)
        span = self._find(edit.target)
        if not isinstance(span[0], int):
            return span
        start, end = span
        if any(start < high and low < end for low, high in document.protected):
            return "protected", "the target touches the frontmatter or a protected region"
        if edit.op == "insert_after":
            point = document.text.find("\n", end - 1) + 1 or len(document.text)
            return Change(
                index=index, start=point, end=point, content=content, inserts=True, anchor=(start, end)
            )
        if self._crosses_fence(start, end):
            reason = "the target crosses a code-fence line; it may hold a whole fence or lie inside one"
            return "protected", reason
        return Change(index=index, start=start, end=end, content="" if edit.op == "delete" else content)

    def _find(self, target: str) -> tuple[int, int] | tuple[State, str]:
        target = target.replace("\r\n", "\n")
        first = self._text.find(target)
        if first < 0:
            return "unmatched", "the target does not occur in the document"
        second = self._text.find(target, first + 1)
        if second >= 0:
            lines = " and ".join(str(self._text.count("\n", 0, offset) + 1) for offset in (first, second))
            return "ambiguous", f"the target occurs more than once, first in lines {lines}"
        end = first + len(target)
        return first + bisect_left(self._shifts, first), end + bisect_left(self._shifts, end)

    def _crosses_fence(self, start: int, end: int) -> bool:
        fences = self._document.layout.fences
        low = bisect_right(self._fence_starts, start) - 1
        low = low if low >= 0 and fences[low].end > start else low + 1
        touched = fences[low : bisect_left(self._fence_starts, end)]
        if not touched:
            return False
        first, last = touched[0], touched[-1]
        # The newline of the closing line may stay behind: targets usually end at the last visible character.
        visible_end = last.start + len(self._document.text[last.start : last.end].rstrip("\r\n"))
        return not (first.opens and start <= first.start and not last.opens and end >= visible_end)


def _settle(document: Document, changes: Sequence[Change]) -> tuple[Document, list[Change], list[Change]]:
    """The new document, the changes that together keep fences and protected parts as they were, and those
    that would not.

    Walks in document order, so the split does not depend on the order of the patch.
    """
    ordered = sorted(changes, key=lambda change: change.order)
    if (whole := rebuild(document, ordered)) is not None:
        return whole, ordered, []
    result, kept, broken = document, list[Change](), list[Change]()
    for change in ordered:
        if (attempt := rebuild(document, [*kept, change])) is None:
            broken.append(change)
        else:
            result = attempt
            kept.append(change)
    return result, kept, broken
