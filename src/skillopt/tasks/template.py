"""Fills prompt templates: known `{name}` placeholders only, so braces in JSON or LaTeX stay."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([^\W\d](?:[\w. -]*[\w.-])?)\}")


def placeholders(template: str) -> list[str]:
    """The names that stand in braces, in order, each once."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with every `{name}` of `values` replaced, in one pass: what a value contains is never
    filled again. A name may hold anything, as the columns of a spreadsheet do.
    """
    if not values:
        return template
    wanted = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return wanted.sub(lambda match: values[match[0][1:-1]], template)
