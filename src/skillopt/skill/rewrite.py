"""Decides what a newly written skill becomes: its body is new, everything protected is the old document's, byte for byte."""

from __future__ import annotations

from skillopt.errors import SkillError
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.skill.layout import BOM, frontmatter_end


def rewritten(document: Document, text: str) -> tuple[Document | None, str]:
    """The document with a whole new body, or None and why the text cannot be one, as the end of a sentence.

    Frontmatter and regions that the new text brings along are dropped, whatever they say, and those of the document are put in
    their place; the result is read again, and must hold exactly them.
    """
    body, problem = _body(text)
    if problem:
        return None, problem
    if not body.strip():
        return None, "has no body"
    if problem := problem_with(body):
        return None, problem
    newline = document.newline
    head = document.frontmatter or (BOM if document.text.startswith(BOM) else "")
    tail = "".join(_whole_lines(document.text[part.start : part.end], newline) for part in document.layout.regions)
    ending = newline if tail or document.text.endswith("\n") or not document.text else ""
    if head.strip(BOM) and not head.endswith("\n"):
        head += newline
    try:
        result = Document(head + body.strip("\n").replace("\n", newline) + ending + tail)
    except SkillError:
        return None, "would change how a protected part is read"
    return (result, "") if _same_protected(document, result) else (None, "would change how a protected part is read")


def _body(text: str) -> tuple[str, str]:
    """What a text says itself: without frontmatter and without regions."""
    text = to_lf(text).removeprefix(BOM)
    try:
        written = Document(text)
    except SkillError as error:
        return "", f"is not a readable skill: {error}"
    kept, position = "", frontmatter_end(text)
    for region in written.layout.regions:
        kept += text[position : region.start]
        position = region.end
    return kept + text[position:], ""


def _whole_lines(text: str, newline: str) -> str:
    return text if text.endswith("\n") else text + newline


def _same_protected(old: Document, new: Document) -> bool:
    heads = [document.frontmatter.rstrip("\r\n") for document in (old, new)]
    regions = [[(part.name, document.region(part.name)) for part in document.layout.regions] for document in (old, new)]
    return heads[0] == heads[1] and regions[0] == regions[1]
