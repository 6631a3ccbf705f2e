"""The rules a check can ask for: what each takes, when it is kept, and texts that keep and break it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from skillopt.errors import ConfigError
from skillopt.tasks.scorers._scorer import last_block, same_signs
from skillopt.tasks.scorers.patterns import example, trouble_with

_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(?:\.[A-Za-z0-9_-]{1,63}){0,3}")
_BOLD = re.compile(r"(?:[-*+]\s+|\d+[.)]\s+)?(\*\*|__)(.+?)\1")
_UNDERLINE = re.compile(r"=+|-{3,}")
_STRAIGHT = str.maketrans("’‘“”", "''\"\"")
NO_JSON = object()
_PROBES = ("", "x", "0", "\n", " ", "?!", "Ab 1")
"""Texts of which a pattern that can fail at all is missing in at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWork:
    """What the rules look at."""

    answer: str
    tools: tuple[str, ...] = ()
    """Names of the tools that were really called, in order."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule with its argument, as a check asks for it. Making one with an argument that its kind cannot
    take raises `ValueError` in words.
    """

    name: str
    arg: Any = None

    def __post_init__(self) -> None:
        if trouble := self.kind.trouble(self.arg):
            raise ValueError(trouble)

    @property
    def kind(self) -> RuleKind:
        return RULES[self.name]

    @property
    def wanted(self) -> str:
        """The text that a rule about a text looks for, as texts are compared."""
        return _wanted(self.arg)

    def keeps(self, work: CheckedWork) -> bool:
        """Whether the work keeps the rule. Patterns and schemas for short texts of our own only: an answer
        may make a pattern run for ever.
        """
        return self.kind.keeps(self.arg, work)

    def samples(self) -> tuple[CheckedWork | None, CheckedWork | None]:
        """Work that keeps the rule and work that breaks it; None where there is none, or none is known."""
        return self.kind.samples(self.arg)

    def as_json(self) -> dict[str, Any]:
        """The check as a task writes it."""
        return {"op": self.name, "arg": None if self.arg is True else self.arg}

    def __str__(self) -> str:
        has_argument = self.arg is not None and self.arg is not True
        return f"{self.name} {json.dumps(self.arg, ensure_ascii=False)}" if has_argument else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind:
    """What a rule of one name means."""

    trouble: Callable[[Any], str]
    """Why it cannot take an argument; nothing where it can."""
    keeps: Callable[[Any, CheckedWork], bool]
    samples: Callable[[Any], tuple[CheckedWork | None, CheckedWork | None]]
    is_criterion: bool = True
    """Whether a skill may state it: what is asked for, not how it is tested."""
    is_shape: bool = False
    """Whether it sees the form of an answer only, which can be met without getting anything right."""
    is_for_anybody: bool = True
    """Whether one that nobody vouches for may be tried: nothing in its argument can take for ever."""


def json_value(work: CheckedWork) -> Any:
    """The JSON value of the answer (its last fenced block, or all of it), or NO_JSON."""
    try:
        return json.loads(last_block(work.answer))
    except (ValueError, RecursionError):
        return NO_JSON


def _text_trouble(arg: Any) -> str:
    return "" if isinstance(arg, str) and arg.strip() else "takes a text that is not empty"


def _length_trouble(arg: Any) -> str:
    is_count = isinstance(arg, int) and not isinstance(arg, bool) and arg >= 1
    return "" if is_count else "takes a whole number of characters, at least 1"


def _pattern_trouble(arg: Any) -> str:
    if trouble := _text_trouble(arg):
        return trouble
    trouble = trouble_with(arg)
    return f"takes a pattern, and this is none: {trouble}" if trouble else ""


def _tool_trouble(arg: Any) -> str:
    if trouble := _text_trouble(arg):
        return trouble
    is_name = _TOOL.fullmatch(arg) is not None
    return "" if is_name else "takes the name of a tool such as search, never a path or a command"


def _schema_trouble(arg: Any) -> str:
    if not isinstance(arg, Mapping):
        return "takes a JSON schema as an object"
    jsonschema = _jsonschema()
    try:
        _schema_validator(arg).check_schema(arg)
    except jsonschema.SchemaError as error:
        return f"takes a JSON schema, and this is none: {error.message}"
    return ""


def _keeps_schema(arg: Any, work: CheckedWork) -> bool:
    value = json_value(work)
    return value is not NO_JSON and bool(_schema_validator(arg)(arg).is_valid(value))


def _schema_validator(schema: Any) -> Any:
    jsonschema = _jsonschema()
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def _has_section(arg: Any, work: CheckedWork) -> bool:
    """A heading ends with the title, a bold line holds it, or a line begins with it and `:`."""
    wanted = _wanted(arg)
    return any(_titles(_folded(line.strip()), wanted) for line in _marked(work.answer))


def _titles(line: str, wanted: str) -> bool:
    marks = len(line) - len(line.lstrip("#"))
    # Stripped and not matched: a line of marks and spaces would make a pattern try every end of it.
    ends = _without_end(line).endswith(_without_end(wanted))
    if ends and 1 <= marks <= 6 and line[marks : marks + 1].isspace():
        return True
    bold = _BOLD.match(line)
    is_bold = bold is not None and wanted in bold[2]
    return is_bold or line.lstrip("-*+ ").startswith(f"{wanted}:")


def _has_in_heading(arg: Any, work: CheckedWork) -> bool:
    headings = (line for line in _marked(work.answer) if re.match(r" {0,3}#{1,6}[ \t]", line))
    return any(_wanted(arg) in _folded(heading) for heading in headings)


def _pattern_samples(arg: Any) -> tuple[CheckedWork | None, CheckedWork | None]:
    kept = example(arg)
    broken = next((CheckedWork(answer=text) for text in _PROBES if not re.search(arg, text)), None)
    return None if kept is None else CheckedWork(answer=kept), broken


def _answers(kept: str, broken: str) -> tuple[CheckedWork, CheckedWork]:
    return CheckedWork(answer=kept), CheckedWork(answer=broken)


RULES: Mapping[str, RuleKind] = {
    "section_present": RuleKind(
        trouble=_text_trouble,
        keeps=_has_section,
        samples=lambda arg: _answers(f"## {arg.strip()}", ""),
        is_shape=True,
    ),
    "section_contains": RuleKind(
        trouble=_text_trouble,
        keeps=_has_in_heading,
        samples=lambda arg: _answers(f"## {arg.strip()}", arg),
        is_shape=True,
    ),
    # Scorers match patterns elsewhere, under a time limit.
    "regex": RuleKind(
        trouble=_pattern_trouble,
        keeps=lambda arg, work: re.search(arg, work.answer) is not None,
        samples=_pattern_samples,
        is_criterion=False,
    ),
    "contains": RuleKind(
        trouble=_text_trouble,
        keeps=lambda arg, work: _wanted(arg) in _folded(work.answer),
        samples=lambda arg: _answers(arg, ""),
    ),
    "not_contains": RuleKind(
        trouble=_text_trouble,
        keeps=lambda arg, work: _wanted(arg) not in _folded(work.answer),
        samples=lambda arg: _answers("", arg),
    ),
    "max_chars": RuleKind(
        trouble=_length_trouble,
        keeps=lambda arg, work: len(work.answer) <= arg,
        samples=lambda arg: _answers("x", "x" * (arg + 1)),
        is_shape=True,
    ),
    "min_chars": RuleKind(
        trouble=_length_trouble,
        keeps=lambda arg, work: len(work.answer) >= arg,
        samples=lambda arg: _answers("x" * arg, ""),
        is_shape=True,
    ),
    "no_refusal": RuleKind(
        trouble=lambda arg: "" if arg is None or arg is True else "takes no argument",
        keeps=lambda arg, work: not is_refusal(work.answer),
        samples=lambda arg: _answers("Here it is.", "I cannot help with that."),
    ),
    # A text that only says so does not count as a call.
    "tool_called": RuleKind(
        trouble=_tool_trouble,
        keeps=lambda arg, work: arg in work.tools,
        samples=lambda arg: (
            CheckedWork(answer="", tools=(arg,)),
            CheckedWork(answer=f"tool_call: {arg}"),
        ),
    ),
    # What keeps a schema is not guessed: a check may bring its own example. A schema may be of any size.
    "json_schema": RuleKind(
        trouble=_schema_trouble,
        keeps=_keeps_schema,
        samples=lambda arg: (None, CheckedWork(answer="no JSON")),
        is_for_anybody=False,
    ),
}
"""Every rule by the name a check gives it."""


def _wanted(arg: Any) -> str:
    return _folded(str(arg)).strip()


def _folded(text: str) -> str:
    """Text without the differences that a person reading it aloud would not hear."""
    return same_signs(text).casefold().translate(_STRAIGHT)


def _without_end(title: str) -> str:
    """A title without its last marks, such as a colon or a picture; all of it where it has nothing else."""
    end = len(title)
    while end and not title[end - 1].isalnum():
        end -= 1
    return title[:end] or title


def _marked(text: str) -> Iterator[str]:
    """The lines of a text; a heading that is underlined comes with the mark of one."""
    lines = text.splitlines()
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        is_heading = line[:1].isalnum() and _UNDERLINE.fullmatch(below.strip()) is not None
        yield f"# {line}" if is_heading else line


def _jsonschema() -> Any:
    try:
        import jsonschema
    except ImportError as error:
        raise ConfigError(
            "The check 'json_schema' needs jsonschema: pip install 'skillopt-trainer[schema]'"
        ) from error
    return jsonschema


_SHORT = 600
"""Characters from which a text is no mere refusal, however it begins."""
_UNABLE = (
    r"(?:can(?:no|['’])t|can not|could(?:n['’]t| not)|won['’]?t|will not|must decline|decline|refuse"
    r"|(?:un|not )able|not (?:possible|allowed|permitted)|no)\b"
)
_APOLOGY = r"(?:(?:i['’]?m|i am|we['’]?re|we are) (?:very |so |really )?sorry|sorry|i apologi[sz]e|apologies)"
# An apology is a refusal only if its own sentence says so, or if nothing follows it.
_ENGLISH = (
    rf"{_APOLOGY}\b(?:[^.!?\n]*?\b{_UNABLE}|[^.!?:\d\n]{{0,40}}[.!?]?\s*\Z)"
    r"|(?:unfortunately,? |(?:i['’]?m|i am) afraid,? (?:that )?)?(?:i|we)(?:['’]?m| am|['’]re| are)? "
    rf"{_UNABLE}(?! (?:believe|recommend|stress|overstate|imagine|wait)\b)|as an ai\b"
)
_ELSEWHERE = (
    # German
    r"(?:(?:es )?tut mir (?:sehr )?leid|leider|entschuldigung)\b[^.!?\n]*\b(?:kann|darf|können|dürfen)\b"
    r"[^.!?\n]*\bnicht\b",
    r"ich (?:kann|darf|werde)\b[^.!?\n]*\bnicht (?:\w+ )?(?:(?:weiter)?helfen|beantworten|erfüllen)\b",
    # French
    r"(?:je suis (?:vraiment |sincèrement )?désolée?|désolée?|malheureusement|je regrette)\b[^.!?\n]*\bne "
    r"(?:peux|puis|pouvons|suis|sommes)\b",
    r"je ne (?:peux|puis) pas (?:vous |t['’])?(?:aider|répondre|fournir)\b",
    # Spanish, Italian, Portuguese
    r"(?:lo siento|lo lamento|disculp[ae]|perdón|desafortunadamente|lamentablemente)\b[^.!?\n]*\bno "
    r"(?:puedo|podemos|me es posible|es posible)\b",
    r"no puedo (?:ayudar|responder|proporcionar|cumplir)\w*",
    r"(?:mi dispiace|spiacente|purtroppo|scusa)\b[^.!?\n]*\bnon (?:posso|possiamo|sono in grado)\b",
    r"non posso (?:aiutar|risponder|fornir)\w*",
    r"(?:desculpe|lamento|sinto muito|infelizmente)\b[^.!?\n]*\bnão (?:posso|podemos|consigo|é possível)\b",
    r"não (?:posso|consigo) (?:ajudar|responder|fornecer)\w*",
    # Dutch, Polish, Russian
    r"(?:het spijt me|helaas|sorry)\b[^.!?\n]*\b(?:kan|mag)\b[^.!?\n]*\bniet\b",
    r"(?:przepraszam|przykro mi|niestety)\b[^.!?\n]*\bnie mog[ęe]\b",
    r"(?:извините|простите|к сожалению|мне жаль|прошу прощения)\b[^.!?\n]*\bне (?:могу|можем)\b",
    r"я не могу (?:помочь|ответить|выполнить|предоставить)\b",
    # Chinese, Japanese, Korean: no blanks between words
    r"(?:很)?(?:抱歉|对不起|對不起|遗憾|遺憾)[^。！？\n]*(?:无法|無法|不能)",
    r"我(?:无法|無法|不能)(?:协助|協助|帮助|幫助|提供|回答|满足|滿足)",
    r"(?:大変)?(?:申し訳|すみません|恐れ入りますが|残念ながら)[^。！？\n]*(?:できません|できかねます|いたしかねます)",
    r"(?:죄송|미안)[^.!?\n]*수 없",
)
_REFUSAL = re.compile("|".join((_ENGLISH, *_ELSEWHERE)), re.IGNORECASE)
_MARKS = re.compile(r"^[\s>#*_`\-]+")


def is_refusal(text: str) -> bool:
    """Whether a short text begins by refusing; one that is empty refuses too."""
    bare = _MARKS.sub("", text).replace("**", "").strip()
    return not bare or (len(bare) < _SHORT and _REFUSAL.match(bare) is not None)
