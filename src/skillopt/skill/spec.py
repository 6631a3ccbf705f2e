"""The Agent Skills rules: decides what a SKILL.md breaks, and what a write of ours would newly break."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from skillopt.skill.layout import BOM, frontmatter_end

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
ADVISED_LINES = 500
ADVISED_TOKENS = 5000
_FILE = re.compile(r"(?<![\w/.-])(?:references|scripts)/[\w./+-]*\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule. `rule` names it and its key, and stays the same while figures change."""

    rule: str
    message: str
    severity: Literal["error", "advice"] = "error"


def violations(text: str, folder_name: str | None) -> list[Violation]:
    """Every rule the text breaks. `folder_name` is the folder SKILL.md lies in, or None for a single file.

    A single file without frontmatter is no installable skill, which is only worth a word of advice.
    """
    return [*_head(text, folder_name), *_size(text)]


def file_violations(text: str, paths: Collection[str]) -> list[Violation]:
    """What SKILL.md and the other files of its folder leave open: a file that it names and that is not there,
    a reference that it does not name, which no agent would open.
    """
    lost = [path for path in dict.fromkeys(_FILE.findall(text)) if path not in paths]
    unnamed = [path for path in sorted(paths) if path.startswith("references/") and path not in text]
    return [
        *(_advice(f"file:{path}", f"SKILL.md names {path}, which is not there.") for path in lost),
        *(
            _advice(f"unnamed:{path}", f"SKILL.md does not name {path}, so that nobody is told to read it.")
            for path in unnamed
        ),
    ]


def new_violations(before: str, after: str, folder_name: str | None = None) -> list[Violation]:
    """Only what `after` breaks and `before` did not: what the user's file already has is theirs to keep."""
    known = {violation.rule for violation in violations(before, folder_name)}
    return [violation for violation in violations(after, folder_name) if violation.rule not in known]


def frontmatter_fields(text: str) -> dict[str, Any]:
    """The frontmatter as a mapping, every scalar a text; empty when there is none or it cannot be read."""
    try:
        fields = _load(text)
    except (yaml.YAMLError, RecursionError):
        return {}
    return {str(key): value for key, value in fields.items()} if isinstance(fields, dict) else {}


def _load(text: str) -> Any:
    lines = text[: frontmatter_end(text)].removeprefix(BOM).removesuffix("\n").split("\n")
    # BaseLoader reads every scalar as text, as the reference validator does: `name: 123` and `version: 1.10`
    # are not numbers.
    return yaml.load("\n".join(lines[1:-1]), Loader=yaml.BaseLoader)


def _error(rule: str, message: str) -> Violation:
    return Violation(rule=rule, message=message)


def _advice(rule: str, message: str) -> Violation:
    return Violation(rule=rule, message=message, severity="advice")


def _head(text: str, folder_name: str | None) -> Iterator[Violation]:
    if not frontmatter_end(text):
        message = "The skill has no frontmatter: a `---` line, name, description, and a `---` line."
        yield (_advice if folder_name is None else _error)("frontmatter", message)
        return
    if text.startswith(BOM):
        message = "The file starts with a byte order mark; frontmatter must start at byte 0."
        yield _error("byte-order-mark", message)
    try:
        fields = _load(text)
    except RecursionError:
        yield _error("yaml", "The frontmatter is nested too deeply to be read.")
        return
    except yaml.YAMLError as error:
        yield _error("yaml", f"The frontmatter is not YAML: {' '.join(str(error).split())}.")
        return
    if fields is None or fields == "":
        fields = {}
    if not isinstance(fields, dict):
        yield _error("yaml", "The frontmatter is not a mapping of keys to values.")
        return
    yield from _name(fields.get("name"), folder_name)
    yield from _description(fields.get("description"))
    yield from _optional(fields)
    for key in fields:
        if key not in FIELDS:
            known = ", ".join(FIELDS)
            yield _error(f"unknown-key:{key}", f"{key!r} is not an Agent Skills field; known are {known}.")


def _name(value: Any, folder_name: str | None) -> Iterator[Violation]:
    if not isinstance(value, str) or not value.strip():
        yield _error("name", "The frontmatter has no name.")
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > MAX_NAME:
        yield _error("name-length", f"The name has {len(name)} characters; {MAX_NAME} are allowed.")
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        message = f"The name {name!r} may hold only lowercase letters, digits and hyphens."
        yield _error("name-characters", message)
    elif not name.isascii():
        yield _advice("name-ascii", f"The name {name!r} is not plain a-z, 0-9; some clients refuse it.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        message = f"The name {name!r} may not start or end with a hyphen or hold two in a row."
        yield _error("name-hyphens", message)
    if folder_name is not None and name != unicodedata.normalize("NFKC", folder_name):
        yield _error("name-folder", f"The name {name!r} must equal the folder's name, {folder_name!r}.")


def _description(value: Any) -> Iterator[Violation]:
    if not isinstance(value, str) or not value.strip():
        yield _error("description", "The frontmatter has no description.")
        return
    if len(value) > MAX_DESCRIPTION:
        message = f"The description has {len(value)} characters; {MAX_DESCRIPTION} are allowed."
        yield _error("description-length", message)
    if "<" in value or ">" in value:
        yield _advice("description-brackets", "The description holds < or >; some clients refuse it.")


def _optional(fields: dict[str, Any]) -> Iterator[Violation]:
    if "license" in fields and not isinstance(fields["license"], str):
        yield _error("license", "license must be a text.")
    compatibility = fields.get("compatibility", "-")
    if not isinstance(compatibility, str) or not 1 <= len(compatibility) <= MAX_COMPATIBILITY:
        yield _error("compatibility", f"compatibility must be a text of 1 to {MAX_COMPATIBILITY} characters.")
    metadata = fields.get("metadata", {})
    pairs = metadata.items() if isinstance(metadata, dict) else [(None, None)]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        yield _error("metadata", "metadata must map texts to texts.")
    if not isinstance(fields.get("allowed-tools", ""), str):
        message = "allowed-tools must be one text with spaces between the tools, not a list."
        yield _error("allowed-tools", message)


def _size(text: str) -> Iterator[Violation]:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    if lines >= ADVISED_LINES:
        yield _advice("lines", f"The skill has {lines} lines; fewer than {ADVISED_LINES} are advised.")
    tokens = len(text[frontmatter_end(text) :].encode()) // 4
    if tokens >= ADVISED_TOKENS:
        message = f"The body has about {tokens} tokens; fewer than {ADVISED_TOKENS} are advised."
        yield _advice("tokens", message)
