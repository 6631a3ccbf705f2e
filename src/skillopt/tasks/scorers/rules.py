"""The rules a check can ask for: what each takes, when it is kept, and texts that keep and break it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

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


@dataclass(frozen=True)
class Rule(ABC):
    """One rule with its argument. Making one with an argument it cannot take raises `ValueError` in words."""

    name: ClassVar[str]
    is_criterion: ClassVar[bool] = True
    """Whether a skill may state it: what is asked for, not how it is tested."""
    is_shape: ClassVar[bool] = False
    """Whether it sees the form of an answer only, which can be met without getting anything right."""
    is_for_anybody: ClassVar[bool] = True
    """Whether one that nobody vouches for may be tried: nothing in its argument can take for ever."""
    arg: Any

    @abstractmethod
    def __post_init__(self) -> None:
        """Refuse an argument that the rule cannot take."""

    @abstractmethod
    def keeps(self, work: CheckedWork) -> bool:
        """Whether the work keeps the rule."""

    @abstractmethod
    def samples(self) -> tuple[CheckedWork | None, CheckedWork | None]:
        """Work that keeps the rule and work that breaks it; None where there is none, or none is known."""

    def as_json(self) -> dict[str, Any]:
        """The check as a task writes it."""
        return {"op": self.name, "arg": self.arg}

    def __str__(self) -> str:
        return f"{self.name} {json.dumps(self.arg, ensure_ascii=False)}"


class _Text(Rule):
    """A rule about a text."""

    def __post_init__(self) -> None:
        if not isinstance(self.arg, str) or not self.arg.strip():
            raise ValueError("takes a text that is not empty")

    @property
    def wanted(self) -> str:
        return _folded(str(self.arg)).strip()


class ContainsRule(_Text):
    """The text is in the answer, whatever its case."""

    name = "contains"

    def keeps(self, work: CheckedWork) -> bool:
        return self.wanted in _folded(work.answer)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer=self.arg), CheckedWork(answer="")


class NotContains(_Text):
    """The text is not in the answer, whatever its case."""

    name = "not_contains"

    def keeps(self, work: CheckedWork) -> bool:
        return self.wanted not in _folded(work.answer)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer=""), CheckedWork(answer=self.arg)


class SectionPresent(_Text):
    """There is a section of that title: a heading that ends with it, a bold line that holds it, or a line
    that begins with it and `:`.
    """

    name = "section_present"
    is_shape = True

    def keeps(self, work: CheckedWork) -> bool:
        return any(self._titles(_folded(line.strip())) for line in _marked(work.answer))

    def _titles(self, line: str) -> bool:
        marks = len(line) - len(line.lstrip("#"))
        # Stripped and not matched: a line of marks and spaces would make a pattern try every end of it.
        ends = _without_end(line).endswith(_without_end(self.wanted))
        if ends and 1 <= marks <= 6 and line[marks : marks + 1].isspace():
            return True
        bold = _BOLD.match(line)
        is_bold = bold is not None and self.wanted in bold[2]
        return is_bold or line.lstrip("-*+ ").startswith(f"{self.wanted}:")

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer=f"## {str(self.arg).strip()}"), CheckedWork(answer="")


class SectionContains(_Text):
    """A heading holds the text."""

    name = "section_contains"
    is_shape = True

    def keeps(self, work: CheckedWork) -> bool:
        headings = (line for line in _marked(work.answer) if re.match(r" {0,3}#{1,6}[ \t]", line))
        return any(self.wanted in _folded(heading) for heading in headings)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer=f"## {str(self.arg).strip()}"), CheckedWork(answer=str(self.arg))


class Pattern(_Text):
    """The pattern is found in the answer; matched elsewhere, under a time limit."""

    name = "regex"
    is_criterion = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if trouble := trouble_with(self.arg):
            raise ValueError(f"takes a pattern, and this is none: {trouble}")

    def keeps(self, work: CheckedWork) -> bool:
        """For short texts of our own only: an answer may make the pattern run for ever."""
        return re.search(self.arg, work.answer) is not None

    def samples(self) -> tuple[CheckedWork | None, CheckedWork | None]:
        kept = example(self.arg)
        broken = next((CheckedWork(answer=text) for text in _PROBES if not re.search(self.arg, text)), None)
        return None if kept is None else CheckedWork(answer=kept), broken


class _Length(Rule):
    """A rule about the number of characters."""

    def __post_init__(self) -> None:
        if isinstance(self.arg, bool) or not isinstance(self.arg, int) or self.arg < 1:
            raise ValueError("takes a whole number of characters, at least 1")


class MaxChars(_Length):
    """The answer has at most so many characters."""

    name = "max_chars"
    is_shape = True

    def keeps(self, work: CheckedWork) -> bool:
        return len(work.answer) <= int(self.arg)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer="x"), CheckedWork(answer="x" * (self.arg + 1))


class MinChars(_Length):
    """The answer has at least so many characters."""

    name = "min_chars"
    is_shape = True

    def keeps(self, work: CheckedWork) -> bool:
        return len(work.answer) >= int(self.arg)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer="x" * self.arg), CheckedWork(answer="")


class NoRefusal(Rule):
    """The answer is not empty, and no short text that begins by refusing."""

    name = "no_refusal"

    def __post_init__(self) -> None:
        if self.arg is not None and self.arg is not True:
            raise ValueError("takes no argument")

    def keeps(self, work: CheckedWork) -> bool:
        return not is_refusal(work.answer)

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer="Here it is."), CheckedWork(answer="I cannot help with that.")

    def as_json(self) -> dict[str, Any]:
        return {"op": self.name, "arg": None}

    def __str__(self) -> str:
        return self.name


class ToolCalled(_Text):
    """The tool of that name was really called; a text that only says so does not count."""

    name = "tool_called"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _TOOL.fullmatch(self.arg):
            raise ValueError("takes the name of a tool such as search, never a path or a command")

    def keeps(self, work: CheckedWork) -> bool:
        return self.arg in work.tools

    def samples(self) -> tuple[CheckedWork, CheckedWork]:
        return CheckedWork(answer="", tools=(self.arg,)), CheckedWork(answer=f"tool_call: {self.arg}")


class JsonSchema(Rule):
    """The answer (its last fenced block, or all of it) is JSON that fits the schema."""

    name = "json_schema"
    is_for_anybody = False  # a schema may be of any size and depth

    def __post_init__(self) -> None:
        if not isinstance(self.arg, Mapping):
            raise ValueError("takes a JSON schema as an object")
        jsonschema = _jsonschema()
        try:
            self._validator().check_schema(self.arg)
        except jsonschema.SchemaError as error:
            raise ValueError(f"takes a JSON schema, and this is none: {error.message}") from error

    def keeps(self, work: CheckedWork) -> bool:
        """For short texts of our own only: an answer may make a pattern of the schema run for ever."""
        value = self.value(work)
        return value is not NO_JSON and bool(self._validator()(self.arg).is_valid(value))

    def value(self, work: CheckedWork) -> Any:
        """The JSON value of the answer, or NO_JSON."""
        try:
            return json.loads(last_block(work.answer))
        except (ValueError, RecursionError):
            return NO_JSON

    def samples(self) -> tuple[CheckedWork | None, CheckedWork]:
        """What keeps a schema is not guessed: a check may bring its own example."""
        return None, CheckedWork(answer="no JSON")

    def _validator(self) -> Any:
        jsonschema = _jsonschema()
        return jsonschema.validators.validator_for(self.arg, default=jsonschema.Draft202012Validator)


RULES: Mapping[str, type[Rule]] = {
    rule.name: rule
    for rule in (
        *(SectionPresent, SectionContains, Pattern, ContainsRule, NotContains, MaxChars, MinChars, NoRefusal),
        *(ToolCalled, JsonSchema),
    )
}
"""Every rule by the name a check gives it."""


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
