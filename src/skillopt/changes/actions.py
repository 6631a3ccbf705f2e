"""What an install does to one file: a file of our own, an entry in a JSON file, or lines in a text file.

An action is pure: it is told the text of the file (None: there is no file) and says the new text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeAlias

from skillopt import json_text
from skillopt.changes import StoredRecord, block
from skillopt.errors import UsageError
from skillopt.json_text import MISSING, NotPlainJson


class _Action(StoredRecord):
    # Written into receipts: what is taken out is what was put in, whatever a later version would put in.
    path: str


class OwnFile(_Action):
    """A whole file of ours."""

    kind: Literal["file"] = "file"
    text: str

    def put_in(self, text: str | None) -> str:
        """The file. Raises `UsageError` where another one is there: it is somebody's."""
        if text is not None and text != self.text:
            raise UsageError(
                f"{self.path} is there, is not ours and is left alone. Move it away, then install again."
            )
        return self.text

    def is_in(self, text: str) -> bool:
        """Whether the file is exactly ours."""
        return text == self.text

    def take_out(self, text: str, before: str | None) -> str | None:
        """None: a file that differs from ours was changed by somebody and stays."""
        return None

    def summary(self) -> str:
        return f"{len(self.text.splitlines())} lines"


class JsonEntry(_Action):
    """A member of a JSON object (or an item of a list in it) that is ours, in a file that is not."""

    kind: Literal["entry"] = "entry"
    keys: tuple[str, ...]
    value: Any
    item: bool = False
    """Whether `keys` lead to a list that gets the value as a further item."""

    def put_in(self, text: str | None) -> str:
        """The file with our entry. Raises `UsageError`, with what to paste, where it cannot be edited."""
        try:
            if text is not None and self.is_in(text):
                return text
            if self.item:
                return json_text.with_item(text or "", self.keys, self.value)
            if text is not None and json_text.value_at(text, self.keys) is not MISSING:
                raise UsageError(
                    f"{self.path} already has another {'.'.join(self.keys)}, which is left alone. Take it out"
                    f" or rename it, then install again; SkillOpt would write:\n{self.snippet()}"
                )
            return json_text.with_member(text or "", self.keys, self.value)
        except NotPlainJson as error:
            raise UsageError(
                f"{self.path} {error}. It is left alone: put this in by hand, then install"
                f" again:\n{self.snippet()}"
            ) from error

    def is_in(self, text: str) -> bool:
        """Whether our entry is there; comments and trailing commas do not matter."""
        try:
            there = json_text.value_at(text, self.keys)
        except NotPlainJson:
            return False
        return isinstance(there, list) and self.value in there if self.item else bool(there == self.value)

    def take_out(self, text: str, before: str | None) -> str | None:
        """The file without our entry and what was made for it; None where that cannot be done safely.

        `before` is the file as it was when we came: what it had stays, even empty.
        """
        try:
            if not self.is_in(text):
                return None
            if self.item:
                text, keys = json_text.without_item(text, self.keys, self.value), self.keys
            else:
                text, keys = json_text.without_member(text, self.keys), self.keys[:-1]
            had = before or ""
            while keys and not json_text.value_at(text, keys) and json_text.value_at(had, keys) is MISSING:
                text, keys = json_text.without_member(text, keys), keys[:-1]
        except NotPlainJson:
            return None
        return "" if before is None and not json_text.value_at(text, ()) else text

    def snippet(self) -> str:
        """The entry as a person would paste it."""
        value = [self.value] if self.item else self.value
        for key in reversed(self.keys):
            value = {key: value}
        return json.dumps(value, indent=2, ensure_ascii=False)

    def summary(self) -> str:
        return ("adds to " if self.item else "adds ") + ".".join(self.keys)


class TextLines(_Action):
    """A few lines of ours between two marker lines, in a file that is not."""

    kind: Literal["lines"] = "lines"
    content: str
    style: block.Style
    unless: str | None = None
    """A pattern of what must not be there already, because it would clash with our lines."""

    def put_in(self, text: str | None) -> str:
        """The file with our block. Raises `UsageError` where that would break it."""
        text = text or ""
        if self.is_in(text):
            return text
        try:
            if self.unless is not None and (found := re.search(self.unless, text)):
                raise UsageError(
                    f"already has {found[0].strip()!r}, which is left alone. Take it out or rename it"
                )
            return block.with_lines(text, self.content, self.style)
        except UsageError as error:
            raise UsageError(
                f"{self.path} {error}, then install again; or put this in by hand:\n{self.content}"
            ) from error

    def is_in(self, text: str) -> bool:
        """Whether exactly our lines are there."""
        return block.has_lines(text, self.content)

    def take_out(self, text: str, before: str | None) -> str | None:
        """The file without our lines; None where somebody changed them or built on them."""
        left = block.without_lines(text, self.content, self.style)
        if left is None or (self.unless is not None and re.search(self.unless, left)):
            return None
        return "" if before is None and not left.strip() else left

    def summary(self) -> str:
        return f"adds a block of {len(self.content.strip().splitlines())} lines"


InstallAction: TypeAlias = OwnFile | JsonEntry | TextLines
