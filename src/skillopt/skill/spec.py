"""The Agent Skills rules: decides what a SKILL.md breaks, and what a write of ours would newly break."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule. `rule` names it (and the key it is about) and stays the same while figures in the
    message change.
    """

    rule: str
    message: str
    severity: Literal["error", "advice"] = "error"


def violations(text: str, folder_name: str | None) -> list[Violation]:
    """Every rule the text breaks. `folder_name` is the folder SKILL.md lies in, or None for a single file.

    A single file without frontmatter is no installable skill, which is only worth a word of advice.
    """
    return [*_head(text, folder_name), *_size(text)]


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


def _head(text: str, folder_name: str | None) -> Iterator[Violation]:
    if not frontmatter_end(text):
        yield Violation(
            rule="frontmatter",
            message=(
                "The skill has no frontmatter: it starts with a `---` line, name, description, and a `---`"
                " line."
            ),
            severity="advice" if folder_name is None else "error",
        )
        return
    if text.startswith(BOM):
        yield Violation(
            rule="byte-order-mark",
            message="The file starts with a byte order mark; frontmatter must start at byte 0.",
        )
    try:
        fields = _load(text)
    except RecursionError:
        yield Violation(rule="yaml", message="The frontmatter is nested too deeply to be read.")
        return
    except yaml.YAMLError as error:
        yield Violation(rule="yaml", message=f"The frontmatter is not YAML: {' '.join(str(error).split())}.")
        return
    if fields is None or fields == "":
        fields = {}
    if not isinstance(fields, dict):
        yield Violation(rule="yaml", message="The frontmatter is not a mapping of keys to values.")
        return
    yield from _name(fields.get("name"), folder_name)
    yield from _description(fields.get("description"))
    yield from _optional(fields)
    for key in fields:
        if key not in FIELDS:
            yield Violation(
                rule=f"unknown-key:{key}",
                message=f"{key!r} is not an Agent Skills field; known are {', '.join(FIELDS)}.",
            )


def _name(value: Any, folder_name: str | None) -> Iterator[Violation]:
    if not isinstance(value, str) or not value.strip():
        yield Violation(rule="name", message="The frontmatter has no name.")
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > MAX_NAME:
        yield Violation(
            rule="name-length", message=f"The name has {len(name)} characters; {MAX_NAME} are allowed."
        )
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        yield Violation(
            rule="name-characters",
            message=f"The name {name!r} may hold only lowercase letters, digits and hyphens.",
        )
    elif not name.isascii():
        yield Violation(
            rule="name-ascii",
            message=f"The name {name!r} is not plain a-z, 0-9; some clients refuse it.",
            severity="advice",
        )
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield Violation(
            rule="name-hyphens",
            message=f"The name {name!r} may not start or end with a hyphen or hold two in a row.",
        )
    if folder_name is not None and name != unicodedata.normalize("NFKC", folder_name):
        yield Violation(
            rule="name-folder", message=f"The name {name!r} must equal the folder's name, {folder_name!r}."
        )


def _description(value: Any) -> Iterator[Violation]:
    if not isinstance(value, str) or not value.strip():
        yield Violation(rule="description", message="The frontmatter has no description.")
        return
    if len(value) > MAX_DESCRIPTION:
        yield Violation(
            rule="description-length",
            message=f"The description has {len(value)} characters; {MAX_DESCRIPTION} are allowed.",
        )
    if "<" in value or ">" in value:
        yield Violation(
            rule="description-brackets",
            message="The description holds < or >; some clients refuse it.",
            severity="advice",
        )


def _optional(fields: dict[str, Any]) -> Iterator[Violation]:
    if "license" in fields and not isinstance(fields["license"], str):
        yield Violation(rule="license", message="license must be a text.")
    compatibility = fields.get("compatibility", "-")
    if not isinstance(compatibility, str) or not 1 <= len(compatibility) <= MAX_COMPATIBILITY:
        yield Violation(
            rule="compatibility",
            message=f"compatibility must be a text of 1 to {MAX_COMPATIBILITY} characters.",
        )
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(part, str) for pair in metadata.items() for part in pair
    ):
        yield Violation(rule="metadata", message="metadata must map texts to texts.")
    if not isinstance(fields.get("allowed-tools", ""), str):
        yield Violation(
            rule="allowed-tools",
            message="allowed-tools must be one text with spaces between the tools, not a list.",
        )


def _size(text: str) -> Iterator[Violation]:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    if lines >= ADVISED_LINES:
        yield Violation(
            rule="lines",
            message=f"The skill has {lines} lines; fewer than {ADVISED_LINES} are advised.",
            severity="advice",
        )
    tokens = len(text[frontmatter_end(text) :].encode()) // 4
    if tokens >= ADVISED_TOKENS:
        message = f"The body has about {tokens} tokens; fewer than {ADVISED_TOKENS} are advised."
        yield Violation(rule="tokens", message=message, severity="advice")
