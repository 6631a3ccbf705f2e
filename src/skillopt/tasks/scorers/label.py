"""Multiple choice: the label that a reply commits to, found as a careful reader would, and its scorer."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._scorer import TextScorer, as_text, passed, references
from skillopt.tasks.task import Task

# An opening tag ends the text before it, so that many unclosed ones stay cheap.
_THINKING = re.compile(r"<think(?:ing)?>(?:(?!<think).)*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_ANSWER = re.compile(r"<answer>", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:boxed|text\w*|math\w*|mbox|fbox|bf|rm)\b")
_SEAM = re.compile(
    r"(?<=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3])(?=[A-Za-z0-9])"
)  # no blank is written there
_DRESS = re.compile(r"[*`$_#{}]|^[ \t]*>", re.MULTILINE)

_CUE = r"""(?:(?<!\w)(?:
    answer | (?:correct|right|best|final|my|only)\ (?:option|choice|one)
  | (?:choose|chose|pick|select|selected|take|go\ with|going\ with|went\ with|leaves|leaving)
  | (?:must|should|would|has\ to)\ be | it's | it\ is
  | conclusion | conclude\ that | therefore | thus | hence | so | actually | (?:final|no)(?=[ ]?:)
  | antwort | antwoord | respuesta | réponse | risposta | resposta | ответ | odpowiedź
)(?!\w) | 答案 | 答え | 正解 | 정답)"""
"""Words after which a label is meant as the answer."""

_GLUE = r"""(?:
    [ \t"'()\[:=,>→–-]
  | (?:is|be|are|it|must|should|would|has|to|the|letter|option|choice|number|one|i|my|with|choose)(?!\w)
  | (?:answer|correct|final|\w{2,20}ly)(?!\w)
  | (?:ist|lautet|es|est|è|é|la|die|der|to|это)(?!\w) | 是 | 为 | 為 | は | 은
){0,16}"""
"""What may stand between such words and the label; bounded, so that reading stays linear."""

_APPROVED = r"\ (?:is|seems|looks)\ (?:the\ )?(?:\w{2,20}ly\ )?(?:correct|right|best|answer)(?!\w)"

_ENDS = rf"""(?=
    [)\]"']{{0,4}} (?:
        \s* (?: $ | [.!?;:,()\]"'—–。、-] (?!\d) | (?:because|since|as|for|which|given)(?!\w)
            | です | 입니다 )
      | {_APPROVED}
    )
)"""
"""What may follow a label. Another word would make `A` an article."""

_AROUND = string.punctuation + string.whitespace + "–—…→"
_DOUBTED = re.compile(
    r"(?<!\w)(?:if|suppose|assum\w+|whether|unless|not|never|cannot|neither)(?!\w)|n't(?!\w)", re.IGNORECASE
)
_DENIED = re.compile(
    rf"""{_DOUBTED.pattern} | (?<!\w)(?: wrong | false | incorrect | hardly | unlikely | between | rul\w*\ out
    | (?:doubt|exclud|reject|eliminat|discard|refut|disprov|contra|negat|mistake|counter)\w*
    | (?:and|n?or|vs)\W*$ )(?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of an introduction, such as `Ruled out:`, after which the choice that follows is not the answer."""

_DRAWN = re.compile(
    r"(?<!\w)(?:by|but|remains?|follows|gives?|get|obtain|yields?|shows?|proves?|implies|statement)(?!\w)",
    re.IGNORECASE,
)
"""Words of an introduction to what was found."""

_EMPTY = re.compile(r"(?:[\s`$]|\\[\[\]])*")
"""A line without content, such as the end of a code block or of a formula."""


def read_label(answer: str, choices: Mapping[str, str]) -> str | None:
    """The label that the answer commits to last, or None; unknown choices are letters or small numbers."""
    text = _undressed(answer)
    if alone := re.fullmatch(rf"[\W_]*({_one_of(choices)})[\W_]*", text, re.IGNORECASE):
        return alone[1]
    if label := label_of_text(answer, choices) or _closing_text(answer, choices):
        return label
    found = max(_commitments(text, choices), default=(0, None), key=lambda pair: pair[0])
    return found[1]


def label_of_text(text: str, choices: Mapping[str, str]) -> str | None:
    """The label of the choice whose text this is, alone or after its own label. Choices that differ only in
    marks, such as `x_1` and `x1`, are compared as written.
    """
    for form in (fold, _bare):
        given = form(text)
        found = [label for label, choice in choices.items() if _names(given, fold(label), form(choice))]
        if len(found) == 1:
            return found[0]
    return None


def _closing_text(answer: str, choices: Mapping[str, str]) -> str | None:
    """The label of the choice whose text the last lines are, unless the words before them lead to something
    else than the answer, or it ends a list of choices.
    """
    lines = _spoken(answer).splitlines()
    filled = [number for number, line in enumerate(lines) if not _EMPTY.fullmatch(line)]
    longest = max((text.count("\n") for text in choices.values()), default=-1) + 1
    for size in range(min(longest, len(filled)), 0, -1):
        if label := label_of_text("\n".join(lines[number] for number in filled[-size:]), choices):
            before = [lines[number] for number in filled[:-size]]
            is_apart = filled[-size] - 1 not in filled[-size - 1 :]
            is_led = not before or _is_complete(before[-1], is_apart) or _leads(before[-1], label)
            return label if is_led and not _is_listed(label, before, longest, choices) else None
    introduction, _, ending = lines[filled[-1]].partition(":") if filled else ("", "", "")
    found = label_of_text(ending, choices)
    return found if found and len(introduction) <= 40 and _leads(introduction, found) else None


def _is_complete(line: str, is_apart: bool) -> bool:
    """Whether a line says something by itself, so that what follows is another sentence."""
    text = _undressed(line).rstrip("\"')]")
    return text.endswith((".", "!", "?", "。")) or (
        is_apart and not re.search(r"(?::|\b(?:and|n?or))$", text)
    )


def _leads(introduction: str, label: str) -> bool:
    """Whether an introduction leads to the answer: it draws a conclusion or names the label, and denies
    nothing.
    """
    clause = re.split(r"[.;,:]", _undressed(introduction).rstrip(" :,"))[-1]
    is_named = re.search(rf"(?<!\w){re.escape(label)}(?!\w)", clause)
    is_drawn = re.search(_CUE, clause, re.IGNORECASE | re.VERBOSE) or _DRAWN.search(clause)
    return bool(is_named or is_drawn) and not _DENIED.search(clause)


def _is_listed(label: str, before: Sequence[str], longest: int, choices: Mapping[str, str]) -> bool:
    """Whether a choice stands right behind another one, or all others were written out above."""
    lines = [re.sub(r"^\s*[-*•]\s", "", line) for line in before[-100:]]
    ahead = {label_of_text("\n".join(lines[-size:]), choices) for size in range(1, longest + 1)}
    above = {label_of_text(line, choices) for line in lines}
    return bool(ahead - {None, label}) or above - {None} == {*choices} - {label}


def _names(given: str, label: str, choice: str) -> bool:
    before = given[: len(given) - len(choice)]
    return (
        bool(choice)
        and given.endswith(choice)
        and (
            not before
            or re.fullmatch(rf"\W*(?:(?:option|choice) )?{re.escape(label)}\W+", before) is not None
        )
    )


def fold(text: str) -> str:
    """Text without the differences of case and white space."""
    return " ".join(text.casefold().split())


def _commitments(text: str, choices: Mapping[str, str]) -> Iterator[tuple[int, str | None]]:
    """Every place where the text settles on an answer, with its label; None where it names several."""
    label = _one_of(choices)
    flags = re.IGNORECASE | re.VERBOSE
    several = _several(label)
    stated = re.compile(rf"{_CUE}{_GLUE}(?<!\w)(?P<label>{label}){_ENDS}", flags)
    judged = re.compile(rf"(?<!\w)(?P<label>{label})[)\]]?{_APPROVED}", flags)
    alone = re.compile(rf"(?:[\w\ ]{{1,30}}:\ ?[^\w\ ]?|option\ |choice\ )?\(?(?P<label>{label})", flags)
    at = 0
    for line in text.splitlines(keepends=True):
        bare = alone.fullmatch(line.strip(_AROUND))
        if bare and not _DENIED.search(bare[0].rpartition(":")[0]):
            yield at, bare["label"]
        for match in [*stated.finditer(line), *judged.finditer(line)]:
            before = line[max(0, match.start() - 200) : match.start()]
            clause = re.split(r"[.;,:]", before)[-1]
            is_one_of_two = re.search(r"(?:and|or)\s+$", before + line[match.start() : match.start("label")])
            if not _DOUBTED.search(clause) and not is_one_of_two:
                place = at + match.start("label")
                yield place, None if several.match(line, match.end("label")) else match["label"]
        at += len(line)
    yield from _texts(text, choices)
    yield from _leading(text, label)


def _texts(text: str, choices: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """`The answer is Paris`, at the end of the text or of a line."""
    longest = max(map(len, choices.values()), default=0) + 40
    for match in re.finditer(rf"{_CUE}[ \t]*(?:is|be)?[ \t:=,]*", text, re.IGNORECASE | re.VERBOSE):
        clause = re.split(r"[.;,:\n]", text[max(0, match.start() - 200) : match.start()])[-1]
        if _DOUBTED.search(clause):
            continue
        rest = text[match.end() : match.end() + longest + 1]
        for part in (rest, rest.partition("\n")[0]):
            if len(part) <= longest and (label := label_of_text(part, choices)):
                yield match.end(), label


def _leading(text: str, label: str) -> Iterator[tuple[int, str]]:
    """A line such as `B) Paris` or `B, since A fails`, unless it is one of a list of all choices."""
    opening = re.compile(
        rf"""^[(\[\ \t]*(?P<label>{label})
        (?: [\ \t]?[).:\]](?!\d) | [\ \t]+[-–—](?=\s) | ,(?=[\ ](?:since|because|as|for)(?!\w))
          | [\ ](?:because|since)(?!\w)(?!.*\bor[\ ]\(?(?:{label})(?!\w))
          | ,?[\ ](?:and[\ ])?\(?(?:as|not|rather[\ ]than|instead[\ ]of)[\ ](?:{label})(?!\w) )""",
        re.MULTILINE | re.IGNORECASE | re.VERBOSE,
    )
    several = _several(label)
    lines = [
        match
        for match in opening.finditer(text)
        if (match["label"].isupper() or match[0].endswith(")") or not match["label"].isalpha())
        and not several.match(text, match.end("label"))
    ]
    if not lines:
        return
    labels = [match["label"] for match in lines]
    is_last = "\n" not in text[lines[-1].start() :].strip()
    is_listed = len(labels) > 1 and ord(labels[-1][0]) - ord(labels[-2][0]) == 1
    if len(set(labels)) == 1 or (is_last and not is_listed):
        yield lines[-1].start("label"), labels[-1]


def _several(label: str) -> re.Pattern[str]:
    """What follows a label that is only one of those named: `or B`, `, B and C`."""
    return re.compile(
        rf"[)\]]?[ \t]?(?:,|/|&|or|and)[ \t]?(?:or |and )?[(\[]?(?:{label})(?!\w)", re.IGNORECASE
    )


def _undressed(answer: str) -> str:
    """What was spoken, without the marks of Markdown and LaTeX."""
    text = _spoken(unicodedata.normalize("NFKC", answer))
    return _SEAM.sub(" ", _DRESS.sub("", _LATEX.sub("", text))).strip()


def _spoken(answer: str) -> str:
    """The text without thinking, and from the last tag on."""
    return _ANSWER.split(_THINKING.sub("", answer))[-1]


def _bare(text: str) -> str:
    return fold(_undressed(text)).strip(" .!()[]\"'")


def _one_of(choices: Mapping[str, str]) -> str:
    labels = sorted(map(re.escape, choices), key=len, reverse=True)
    return "|".join(labels) if labels else r"[A-Za-z]|\d{1,2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice(TextScorer):
    """The label of the right choice.

    The reference is a label, or the text of a choice when the task's data has `choices` (a list is labelled
    A, B, C ..., a mapping by its keys). An answer is a label alone, the text of a choice, or the last
    commitment of a longer reply: `B) Paris`, `The answer is B`, `B because of A`, or a last line with
    nothing but the label or the text of a choice.
    """

    name: ClassVar[str] = "multiple_choice"
    revision: ClassVar[int] = 5

    def check_task(self, task: Task) -> None:
        """Every reference names a choice; a bare number beside a list could count from 0 or 1: refused."""
        choices = _choices(task)
        for text in references(task):
            if choices and _reference_label(text, choices) is None:
                labels = ", ".join(choices)
                raise task.error(
                    f"has the reference {text!r}, neither a label ({labels}) nor the text of a choice."
                    " Write one of them."
                )

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        choices = _choices(task)
        wanted = references(task)
        labels = {fold(_reference_label(text, choices) or text) for text in wanted}
        label = read_label(answer, choices)
        note = "No choice label was found." if label is None else ""
        return passed(label is not None and fold(label) in labels, answer, wanted, note)


def _choices(task: Task) -> dict[str, str]:
    given: Any = task.data.get("choices")
    if isinstance(given, Mapping):
        return {str(label): as_text(text) for label, text in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(string.ascii_uppercase, map(as_text, given), strict=False))
    return {}


def _reference_label(text: str, choices: Mapping[str, str]) -> str | None:
    bare = fold(text.strip().strip("().:"))
    return next((label for label in choices if fold(label) == bare), None) or label_of_text(text, choices)
