"""Decides how figures and outcomes read in a report, and how text of a run is made harmless in HTML and in
Markdown.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence

from skillopt.runs.values import Change

UNKNOWN = "unknown"
NOT_MEASURED = "not measured"
_OUTCOMES = {
    "accept": "accepted",
    "accept_new_best": "accepted",
    "force_accept": "taken without a gate",
    "reject": "rejected",
    "unchanged": "unchanged",
    "skip_no_patches": "unchanged",
    "skip_no_rewrite": "unchanged",
    "no_content": "unchanged",
    "inconclusive": "inconclusive",
}
SIGNS = {"accepted": "●", "rejected": "×", "unchanged": "○", "inconclusive": "?", "taken without a gate": "◆"}
"""One shape per outcome, so that nothing is told by colour alone."""
# Half of a surrogate pair cannot be written as UTF-8, and control characters do not belong in a page.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]|#~!])")


def escape(text: object) -> str:
    """Text of a run as text of a page, also inside an attribute."""
    return html.escape(printable(str(text)), quote=True)


def printable(text: str) -> str:
    """The text without what no file can hold."""
    return _UNPRINTABLE.sub("\ufffd", text)


def markdown(text: object) -> str:
    """Text of a run as one line of plain Markdown text, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(printable(str(text)).split()), quote=False))


def score(value: float | None) -> str:
    """A score with three decimals; one that was not measured says so."""
    return NOT_MEASURED if value is None else f"{value:.3f}"


def money(usd: float | None) -> str:
    """Dollars, or unknown: a price nobody knows is not zero."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd == 0 or usd >= 1 else f"${usd:.4f}"


def amount(number: int | None) -> str:
    """A count, or unknown."""
    return UNKNOWN if number is None else f"{number:,}"


def outcome(action: str) -> str:
    """The word for what became of a change."""
    return _OUTCOMES.get(action, action)


def outcomes(changes: Sequence[Change]) -> str:
    """How many steps ended how."""
    counted = Counter(outcome(change.action) for change in changes)
    words = [word for word in SIGNS if counted[word]] + [word for word in counted if word not in SIGNS]
    return ", ".join(f"{counted[word]} {word}" for word in words) or "none"
