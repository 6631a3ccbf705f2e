"""Cuts a session into requests, and reads off the person's next words how each was answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from skillopt.night.kinds import alike, features, normal
from skillopt.transcripts.session import RecordedSession, ToolUse, Turn

RequestOutcome = Literal["accepted", "corrected", "repeated", "unknown"]
_REPEATED = Fraction(3, 5)
_SHORT = 8
"""Words below which a later turn is a follow-up and no request of its own."""
_HEAD = 300
_QUOTED = re.compile(
    r"```[^`]*(?:```|\Z)|^[ \t]*>[^\n]*$|`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]{1,300}'(?!\w)", re.MULTILINE
)
_NO = re.compile(
    r"^\W{0,5}(?:no|nope|wrong|incorrect|not (?:quite|right|good|what|correct)|undo|revert|stop|hmm,? no)\b"
    r"(?! problem| worries| need| idea)"
    r"|\b(?:still (?:broken|not|wrong|fail\w*|doesn'?t|missing|too)"
    r"|(?:does|did|is|was|are|were)(?:n'?t| not) (?:work\w*|right|correct|what|fixed|it)"
    r"|not (?:working|fixed|what i)|that'?s (?:wrong|incorrect|not)|(?:is|was|looks) (?:still"
    r" )?(?:wrong|incorrect|broken)"
    r"|you (?:forgot|missed|ignored|broke)|i (?:said|asked|told you|meant)"
    r"|try again|redo|error again|(?:too|way too) (?:long|short|verbose|brief|vague|wordy)|should (?:have|not"
    r" have|be shorter|be longer)"
    r"|don'?t (?:do|use|add|include|write|mention)|instead of|please (?:fix|revert|undo|remove))\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\b(?:thanks|thank you|thx|perfect|great|awesome|excellent|lovely|looks good|lgtm|works now|that"
    r" works|it works|well done|good job"
    r"|exactly|love it|ship it|nice)\b(?! if| when| to have)",
    re.IGNORECASE,
)
_ON = re.compile(
    r"^\W{0,5}(?:also|and|but|now|then|next|instead|again|continue|go on|yes|ok|okay|sure|why|what about|how"
    r" about|make it|it|that"
    r"|this|these|those|they|same|another|one more|thanks|great|perfect|no|can you also|could you also|do the"
    r" same)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:above|as before|previous(?:ly)?|earlier|the same (?:thing|way)|you (?:just|already)|last time"
    r"|this (?:one|error|output|issue)|like that)\b",
    re.IGNORECASE,
)
_PLACES = re.compile(
    r"(?<![\w/.@-])(?:~|\.{1,2})?/(?:[\w.@-]+/)+[\w.@-]*|(?<![\w./-])(?=[\w-]{0,80}[A-Za-z])[\w-]+(?:/[\w.-]+){2,}"
    r"|(?<![\w./@-])@?(?!(?:node|vue|next|nuxt|react|express|three|d3)\.js\b)[\w-]+\.(?:py|js|ts|tsx|jsx|rs|go|java|cc|cpp|rb|php|cs|kt|swift"
    r"|sql|sh|ya?ml|toml|json|md|html|css|ipynb|lock|cfg|ini|csv|txt|xlsx|pdf)\b",
    re.ASCII | re.IGNORECASE,
)
_HERE = re.compile(
    r"\b(?:this|our|my|current) (?:repo\w*|project|code"
    r" ?base|code|files?|folder|directory|branch|workspace|module|package|tests?"
    r"|build|pipeline|diff|commit|pull"
    r" request|pr|function|class|bug|app|server|database|deployment|script|config\w*)\b"
    r"|\bthe (?:repo|repository|code ?base|failing|test suite|tests|branch|diff|pull request|pr|bug in)\b"
    r"|\b(?:run the (?:tests?|build|app|linter)|commit and push|open a pr|git"
    r" (?:add|commit|push|rebase|merge|checkout))\b",
    re.IGNORECASE,
)
_ATTACHED = re.compile(r"\[(?:Pasted text|Image|Audio|File)[^\]\n]{0,80}\]")
_HARMLESS = frozenset(
    {"skill", "use_skill", "load_skill", "activate_skill", "think"}
    | {"todowrite", "todo_write", "todoread", "update_plan"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """One request of a person, what came of it, and whether it can be asked again as text."""

    session: RecordedSession
    turn: Turn
    """The turn that asked."""
    form: str
    """Its normal form."""
    accepted: tuple[str, ...]
    """Answers the person was content with."""
    rejected: tuple[str, ...]
    """Answers the person spoke against, or asked again after."""
    outcome: RequestOutcome
    corrections: tuple[str, ...]
    """What the person said against the answer, in order."""
    needs: str
    """Why it cannot be asked again as text alone; empty where it can."""


def requests_of(session: RecordedSession) -> Iterator[PastRequest]:
    """The requests of a session in order, each with all that belongs to it."""
    group: list[Turn] = []
    is_first = True
    for turn in session.turns:
        if turn.role == "user" and group and _is_new_request(group, turn):
            yield _request(session, group, is_first, turn)
            group, is_first = [], False
        if turn.role == "user" or group:
            group.append(turn)
    if group:
        yield _request(session, group, is_first, None)


def reaction(text: str) -> Literal["accepted", "corrected"] | None:
    """What the beginning of a later turn says about the answer before it; what it quotes says nothing."""
    head = _QUOTED.sub(" ", text[: 4 * _HEAD])[:_HEAD].replace("’", "'")
    if _NO.search(head):
        return "corrected"
    return "accepted" if _YES.search(head) else None


def needs(request: Turn, tools: Sequence[ToolUse], *, is_first: bool) -> str:
    """Why a request cannot be asked again as text: it needs the machine, or what was said before."""
    used = [
        tool.name for tool in tools if tool.name.casefold() not in _HARMLESS and "SKILL.md" not in tool.about
    ]
    if used:
        return f"it was worked on with tools ({', '.join(dict.fromkeys(used[:5]))})"
    text = _QUOTED.sub(" ", request.text)
    if request.clipped:
        return "the request is longer than is kept"
    if _ATTACHED.search(request.text):
        return "something was attached to it"
    if found := _PLACES.search(text):
        return f"it names a file ({found[0][:80]})"
    if found := _HERE.search(text):
        return f"it speaks of the repository ({found[0].lower()})"
    if _POINTS_BACK.search(text) or (not is_first and _ON.match(text)):
        return "it leans on what was said before"
    return ""


def _is_new_request(group: Sequence[Turn], turn: Turn) -> bool:
    if not any(earlier.role == "assistant" for earlier in group):
        return False  # two messages before an answer are one request
    if len(turn.text.split()) < _SHORT or _ON.match(turn.text) or reaction(turn.text) is not None:
        return False
    return not _is_repeat(group[0], turn)


def _is_repeat(request: Turn, turn: Turn) -> bool:
    return alike(features(normal(request.text)), features(normal(turn.text))) >= _REPEATED


def _request(
    session: RecordedSession, group: Sequence[Turn], is_first: bool, following: Turn | None
) -> PastRequest:
    request = group[0]
    accepted: list[str] = []
    rejected: list[str] = []
    corrections: list[str] = []
    is_repeated = False
    told: Literal["accepted", "corrected"] | None = None
    for answer, turn in _answered([*group, *([following] if following is not None else [])]):
        if turn is None:
            break
        told = reaction(turn.text)
        again = turn is not following and _is_repeat(request, turn)
        is_repeated = is_repeated or again
        if told == "accepted":
            accepted.append(answer)
        elif told == "corrected" or again:
            rejected.append(answer)
            corrections.append(turn.text)
    broke_off = any(turn.failed and turn.role == "assistant" for turn in group)
    outcome: RequestOutcome = "unknown"
    if is_repeated:
        outcome = "repeated"
    elif corrections or broke_off:
        outcome = "corrected"
    elif told == "accepted":
        outcome = "accepted"
    return PastRequest(
        session=session,
        turn=request,
        form=normal(request.text),
        accepted=tuple(filter(None, accepted)),
        rejected=tuple(filter(None, rejected)),
        outcome=outcome,
        corrections=tuple(corrections),
        needs=needs(request, [tool for turn in group for tool in turn.tools], is_first=is_first),
    )


def _answered(turns: Sequence[Turn]) -> Iterator[tuple[str, Turn | None]]:
    """Each answer, which is the last text before the person speaks again, and that next turn."""
    answer: str | None = None
    for turn in turns[1:]:
        if turn.role == "assistant":
            answer = (answer or "") if not turn.text else "" if turn.clipped else turn.text
        elif turn.role == "user" and answer is not None:
            yield answer, turn
            answer = None
    if answer is not None:
        yield answer, None
