"""The tools of a question: list, read and search its own documents, by name; no path is followed.

An agent that brings its own tools gets the documents themselves (`DocumentTools.documents`) instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TypeGuard

from skillopt.errors import ConfigError
from skillopt.messages import Tool

_TEXTS = ("", "transformed", "treasury_bulletins_parsed/transformed")
_PARSED = ("jsons", "treasury_bulletins_parsed/jsons")


class Library:
    """The folders with documents: texts side by side or in `transformed/`, parsed ones in `jsons/`."""

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise ConfigError(
                    f"env.data_dirs: there is no folder {root}. Name the folder with the documents."
                )
        self._roots = [root.resolve() for root in roots]

    @property
    def has_pages(self) -> bool:
        """Whether parsed documents are here at all."""
        return any((root / folder).is_dir() for root in self._roots for folder in _PARSED)

    def text(self, name: str) -> Path:
        """The document of that name. Raises `LookupError` that says what is wrong."""
        return self._find(name, [root / folder for root in self._roots for folder in reversed(_TEXTS)])

    def parsed(self, stem: str) -> Path:
        """The parsed form of a document. Raises `LookupError` that says what is wrong."""
        return self._find(f"{stem}.json", [root / folder for root in self._roots for folder in _PARSED])

    def _find(self, name: str, folders: Sequence[Path]) -> Path:
        if name != Path(name).name or name in ("", ".", ".."):
            raise LookupError(f"{name!r} is no plain file name")
        for folder in folders:
            path = folder / name
            if path.is_file():
                if not any(path.resolve().is_relative_to(root) for root in self._roots):
                    raise LookupError(
                        f"{path} is a link that leads out of the folder; put the file itself there"
                    )
                return path
        raise LookupError(f"there is no {name} in {' or '.join(str(root) for root in self._roots)}")


LINES = 80
CHARACTERS = 4000
MOST_NAMES = 50
MOST_HITS = 20
_AROUND = 300
_PATH = "Name of a document, as glob lists it."

TOOLS = (
    Tool.of(
        "glob",
        f"List the documents whose name matches a pattern, at most {MOST_NAMES}.",
        ["pattern"],
        pattern="Such as * or *1941*",
    ),
    Tool.of(
        "read",
        f"Read lines of a document, at most {CHARACTERS} characters at a time.",
        ["path"],
        path=_PATH,
        start={"type": "integer", "description": "First line, from 1. Unset: 1."},
        limit={"type": "integer", "description": f"How many lines. Unset: {LINES}."},
    ),
    Tool.of(
        "grep",
        "Find the lines that hold a text, exactly as written apart from upper and lower case; the first"
        f" {MOST_HITS} are shown.",
        ["pattern"],
        pattern="The text to look for; not a regular expression.",
        path="Search this document only. Unset: all of them.",
    ),
)


class DocumentTools:
    """The documents of one question."""

    tools: Sequence[Tool] = TOOLS

    def __init__(self, documents: Sequence[Path], max_turns: int) -> None:
        self.max_turns = max_turns
        self.documents = tuple(documents)
        self._documents = {path.name: path for path in documents}

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """Do what the call says; a wrong call is told what is wrong with it."""
        if name == "glob":
            return self._glob(arguments.get("pattern"))
        if name == "read":
            return self._read(arguments.get("path"), arguments.get("start"), arguments.get("limit"))
        if name == "grep":
            return self._grep(arguments.get("pattern"), arguments.get("path"))
        return f"There is no tool {name!r}."

    async def close(self) -> None:
        """Nothing is open."""

    def _glob(self, pattern: object) -> str:
        if not isinstance(pattern, str) or not pattern:
            return "glob needs a text 'pattern', such as *."
        wanted = pattern.removeprefix("./").removeprefix("**/")
        found = [name for name in self._documents if fnmatchcase(name, wanted)]
        if not found:
            return f"No document matches. {self._known()}"
        more = f"\n[{len(found) - MOST_NAMES} more]" if len(found) > MOST_NAMES else ""
        return "\n".join(found[:MOST_NAMES]) + more

    def _read(self, path: object, start: object, limit: object) -> str:
        document = self._documents.get(path) if isinstance(path, str) else None
        if document is None:
            return f"There is no document {path!r} to read. {self._known()}"
        first, count = (1 if start is None else start), (LINES if limit is None else limit)
        if not _is_positive(first) or not _is_positive(count):
            return "'start' and 'limit' are whole numbers from 1 on."
        lines = _lines(document)
        if first > len(lines):
            return f"{document.name} has {len(lines)} lines; there is no line {first}."
        shown: list[str] = []
        room = CHARACTERS
        for number, line in enumerate(lines[first - 1 : first - 1 + count], start=first):
            text = f"{number}: {line}"
            if shown and len(text) > room:
                break
            shown.append(text[:CHARACTERS])
            room -= len(text) + 1
        last = first + len(shown) - 1
        end = "the end" if last == len(lines) else f"read on from line {last + 1}"
        return "\n".join([*shown, f"[lines {first} to {last} of {len(lines)}; {end}]"])

    def _grep(self, pattern: object, path: object) -> str:
        if not isinstance(pattern, str) or not pattern.strip():
            return "grep needs a text 'pattern' to look for."
        if path is not None and (not isinstance(path, str) or path not in self._documents):
            return f"There is no document {path!r} to search. {self._known()}"
        wanted = pattern.casefold()
        names = [path] if isinstance(path, str) else list(self._documents)
        hits = [
            f"{name}:{number}: {_around(line, wanted)}"
            for name in names
            for number, line in enumerate(_lines(self._documents[name]), start=1)
            if wanted in line.casefold()
        ]
        if not hits:
            return "No line holds this text."
        over = len(hits) - MOST_HITS
        more = f"\n[{over} more lines; look for something rarer]" if over > 0 else ""
        return "\n".join(hits[:MOST_HITS]) + more

    def _known(self) -> str:
        return f"Documents: {', '.join(list(self._documents)[:MOST_NAMES])}."


@lru_cache(64)
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())


def _is_positive(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _around(line: str, wanted: str) -> str:
    """A line, or of a long one the part around the hit."""
    if len(line) <= 2 * _AROUND:
        return line
    start = max(0, line.casefold().find(wanted) - _AROUND)
    end = start + 2 * _AROUND
    return f"{'...' if start else ''}{line[start:end]}{'...' if end < len(line) else ''}"
