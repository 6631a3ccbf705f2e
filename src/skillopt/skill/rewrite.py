"""What a newly written skill becomes: its body is new, all that is protected the old one's bytes."""

from __future__ import annotations

import re
from dataclasses import replace

from skillopt.errors import SkillError
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.skill.layout import BOM, frontmatter_end, leaves_fence_open


def rewritten(document: Document, text: str) -> tuple[Document | None, str]:
    """The document with a whole new body, or None and why the text cannot be one, as the end of a sentence.

    Frontmatter and regions that the new text brings along are dropped, whatever they say, and those of the
    document are put in their place; the result is read again, and must hold exactly them. A code block around
    the whole text is taken off. Blank lines around the body stay: the same text gives the same document.
    """
    # A lone carriage return is no line end of a document: as one it could make a line of text a marker.
    old = _without_protected(document.text.replace("\r\n", "\n").removeprefix(BOM), document)
    # What the text says itself: without a code block around it, without frontmatter and without regions.
    written = _unwrapped(_BLANK_START.sub("", to_lf(text).removeprefix(BOM)), old)
    try:
        body = _without_protected(_BLANK_START.sub("", written), document)
    except SkillError as error:
        return None, f"is not a readable skill: {error}"
    if not body.strip():
        return None, "has no body"
    if body.strip("\n") == old.strip("\n"):
        return document, ""
    if problem := problem_with(body):
        return None, problem
    newline = document.newline
    head = document.frontmatter or (BOM if document.text.startswith(BOM) else "")
    regions = [document.text[part.start : part.end] for part in document.layout.regions]
    tail = "".join(text if text.endswith("\n") else text + newline for text in regions)
    before, after = _blank_lines(old, newline)
    ending = after or (newline if tail or document.text.endswith("\n") or not document.text else "")
    if head.strip(BOM) and not head.endswith("\n"):
        head += newline
    try:
        result = replace(
            document, text=head + before + body.strip("\n").replace("\n", newline) + ending + tail
        )
    except SkillError:
        return None, "would change how a protected part is read"
    if not _same_protected(document, result):
        return None, "would change how a protected part is read"
    return result, ""


_BLANK_START = re.compile(r"\A(?:[ \t]*\n)+")
_WRAPPER = re.compile(
    r"\A(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>markdown|md|)[ \t]*\n(?P<inside>.*)\n(?P=ticks)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_FIELD = re.compile(r"^[A-Za-z_][\w-]*[ \t]*:", re.MULTILINE)


def _unwrapped(text: str, old: str) -> str:
    """The text without a code block that models put around all of it; a skill that was one block stays."""
    wrapper = _WRAPPER.match(text)
    if wrapper is None or _WRAPPER.match(_BLANK_START.sub("", old)) is not None:
        return text
    inside, ticks = wrapper["inside"], re.escape(wrapper["ticks"])
    # Without a language the first and the last block of a skill may look like one around it.
    is_one_block = bool(wrapper["info"]) or re.search(rf"^[ \t]*{ticks}", inside, re.MULTILINE) is None
    return inside if is_one_block and not leaves_fence_open(inside) else text


def _without_protected(text: str, document: Document) -> str:
    """The text without frontmatter and regions. Two `---` lines without a `key:` between are text."""
    written = Document(text)
    position = frontmatter_end(text)
    head = text[:position]
    fields = head.partition("\n")[2].rstrip("\n").rpartition("\n")[0]
    is_own = head.rstrip() == to_lf(document.frontmatter).removeprefix(BOM).rstrip()
    if fields.strip() and not _FIELD.search(fields) and not is_own:
        position = 0
    kept = ""
    for region in written.layout.regions:
        kept += text[position : region.start]
        position = region.end
    return kept + text[position:]


def _blank_lines(old: str, newline: str) -> tuple[str, str]:
    """The empty lines before the old body, and its last line end with those after it."""
    if not old.strip():
        return "", ""
    return newline * (len(old) - len(old.lstrip("\n"))), newline * (len(old) - len(old.rstrip("\n")))


def _same_protected(old: Document, new: Document) -> bool:
    heads = [document.frontmatter.rstrip("\r\n") for document in (old, new)]
    regions = [
        [(part.name, document.region(part.name)) for part in document.layout.regions]
        for document in (old, new)
    ]
    return heads[0] == heads[1] and regions[0] == regions[1]
