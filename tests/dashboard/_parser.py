"""A page as a browser's parser sees it: tags that close in order, attributes, and the text between them."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """Parses on construction; a tag that closes out of order is an error."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.cells: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self._kind = ""
        self.feed(source)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        """All that is shown, without style sheet and script."""
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._kind = dict(attrs).get("class") or ""
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "td":
            self.cells.append((self._kind, data))
        if not self._open or self._open[-1] not in ("style", "script"):
            self.words.append(data)
