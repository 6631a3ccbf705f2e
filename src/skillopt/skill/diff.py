"""Decides how a change of a skill is shown.

Runnable: `python -m skillopt.skill.diff a.md b.md`; the exit code is 0 for equal files, 1 for different ones,
2 for bad input.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from skillopt.errors import UsageError
from skillopt.files import as_usage_error, read_text
from skillopt.redact.printable import printable
from skillopt.skill.document import unpack


def unified(a: str, b: str, name_a: str, name_b: str) -> str:
    """A unified diff that `patch` can read; empty when the texts are equal. Of skills with several files one
    diff after the other, each with the file's path.
    """
    (text_a, files_a), (text_b, files_b) = unpack(a), unpack(b)
    diffs = [_of_file(text_a, text_b, name_a, name_b)]
    for path in sorted({*files_a, *files_b}):
        names = [
            f"{name}/{path}" if path in files else "/dev/null"
            for name, files in ((name_a, files_a), (name_b, files_b))
        ]
        diffs.append(_of_file(files_a.get(path, ""), files_b.get(path, ""), *names))
    return "".join(diffs)


def _of_file(a: str, b: str, name_a: str, name_b: str) -> str:
    lines = difflib.unified_diff(_LINE.findall(a), _LINE.findall(b), name_a, name_b)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


# Only a newline ends a line here: str.splitlines also splits at form feeds and at U+2028.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
LineKind: TypeAlias = Literal["file", "where", "added", "removed", "same"]
_IN_HUNK: Mapping[str, LineKind] = {"+": "added", "-": "removed", "\\": "where"}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STYLES: Mapping[LineKind, str] = {"file": "bold", "where": "cyan", "added": "green", "removed": "red"}


def lines_of(difference: str) -> Iterator[tuple[LineKind, str]]:
    """The lines of a unified diff, each with what it is.

    Only the length that a hunk announces tells its lines from the names of the sides: a removed line may
    begin with `---`, as the fence of a frontmatter does.
    """
    old = new = 0
    for line in difference.removesuffix("\n").split("\n") if difference else ():
        if old > 0 or new > 0:
            kind: LineKind = _IN_HUNK.get(line[:1], "same")
            old -= kind in ("removed", "same")
            new -= kind in ("added", "same")
        elif hunk := _HUNK.match(line):
            kind = "where"
            old, new = (1 if size is None else int(size) for size in hunk.groups())
        else:
            kind = "where" if line.startswith("\\") else "file"
        yield kind, line


def print_coloured(difference: str) -> None:
    """Print a unified diff in its colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for kind, line in lines_of(difference):
        console.print(Text(printable(line), style=_STYLES.get(kind, "")), soft_wrap=True)


def main(arguments: Sequence[str]) -> int:
    """Print the diff of two files and return the exit code."""
    if len(arguments) != 2:
        print("usage: python -m skillopt.skill.diff a.md b.md", file=sys.stderr)
        return 2
    texts: list[str] = []
    for name in arguments:
        try:
            with as_usage_error(name, "read", "Name another file."):
                texts.append(read_text(name))
        except UsageError as error:
            print(error, file=sys.stderr)
            return 2
    difference = unified(texts[0], texts[1], arguments[0], arguments[1])
    if sys.stdout.isatty():
        print_coloured(difference)
    else:
        sys.stdout.buffer.write(difference.encode())
        sys.stdout.flush()
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
