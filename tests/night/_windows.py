"""How programs on Windows read their command line."""

from __future__ import annotations

import re

# CommandLineToArgvW: backslashes count only before a quote.
_PIECE = re.compile(r'(?P<slashes>\\*)(?P<quote>")|(?P<space>[ \t]+)|(?P<char>.)', re.DOTALL)


def split(line: str) -> list[str]:
    """The arguments of a Windows command line, as programs there read them."""
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    for piece in _PIECE.finditer(line):
        if piece["quote"]:
            slashes = len(piece["slashes"])
            word = (word or "") + "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            else:
                is_quoted = not is_quoted
        elif piece["space"] and not is_quoted:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + piece[0]
    return words if word is None else [*words, word]
