"""The requests of a session: each with the answers that were accepted and rejected, what the person wanted,
and whether it can be asked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skillopt.transcripts.session import RecordedSession, ToolUse, Turn
from skillopt_sleep.readings import ReadTurn, SessionReading
from skillopt_sleep.wording import folded, normal, pasted
from skillopt_sleep.worktrees import Worktree, record_of_tools

RequestOutcome = Literal["accepted", "corrected", "redone", "abandoned", "unknown"]
_QUOTATION = re.compile(
    r"```[^`]*(?:```|\Z)|^[ \t]*>[^\n]*$|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|(?<!\w)'[^'\n]{1,300}'(?!\w)",
    re.MULTILINE,
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
_MATERIAL = re.compile(
    r"\b(?:diff|code|error|output|log|issue|commit|function|class|script|tests?|bug|config\w*|module)\b", re.I
)
"""What a request may call what was pasted into it."""
_ATTACHED = re.compile(r"\[(?:Pasted text|Image|Audio|File)[^\]\n]{0,80}\]")
_HARMLESS = frozenset(
    {"skill", "use_skill", "load_skill", "activate_skill", "think"}
    | {"todowrite", "todo_write", "todoread", "update_plan"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What the person said against an answer: the whole turn, and its words that say what was wanted."""

    text: str
    wanted: str
    lasting: bool
    """A wish for every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """One request of a person, what came of it, and whether it can be asked again as text."""

    session: RecordedSession
    turn: Turn
    """The turn that asked."""
    form: str
    """Its normal form."""
    about: str
    """The sort of request it is, as a model read it; empty where none did."""
    accepted: tuple[str, ...]
    """Answers the person was content with."""
    rejected: tuple[str, ...]
    """Answers the person spoke against, or asked again after."""
    outcome: RequestOutcome
    corrections: tuple[Correction, ...]
    """What the person said against the answer, in order; not what was said for this once."""
    needs: str
    """Why it cannot be asked again as text alone; empty where it can."""
    tools: tuple[ToolUse, ...] = ()
    """What it was worked on with."""
    is_first: bool = True
    """Whether nothing was asked before it in its session."""
    accepted_work: tuple[str, ...] = ()
    """Records of the work up to each accepted answer, and below of that up to each rejected one."""
    rejected_work: tuple[str, ...] = ()
    worktree: Worktree | None = None
    """Where it is replayed, which needs tools; then its answers are records of work."""


FindWorktree = Callable[[RecordedSession, Turn, Sequence[ToolUse]], Worktree | str]
"""The worktree of a request, or why it has none."""


def in_worktree(request: PastRequest, find: FindWorktree) -> PastRequest:
    """The request as one that is replayed in a worktree, where it was worked on with tools and can be."""
    if not request.tools:
        return request
    text = request.turn.text
    if not request.is_first:
        found: Worktree | str = "it came after other work of its session"
    elif request.turn.clipped or _ATTACHED.search(text) or _POINTS_BACK.search(_QUOTATION.sub(" ", text)):
        return request
    else:
        found = find(request.session, request.turn, request.tools)
    if isinstance(found, str):
        return replace(request, needs=f"{request.needs}, and {found}")
    return replace(
        request, needs="", worktree=found, accepted=request.accepted_work, rejected=request.rejected_work
    )


def requests_of(session: RecordedSession, reading: SessionReading) -> Iterator[PastRequest]:
    """The requests of a session in order, each with all that belongs to it."""
    read = iter(reading.turns)
    group: list[tuple[Turn, ReadTurn | None]] = []
    is_first = True
    for turn in session.turns:
        read_turn = None
        if turn.role == "user":
            read_turn = next(read, ReadTurn(reaction="none"))
            if group and read_turn.asks and read_turn.reaction not in ("corrected", "redone"):
                yield _request(session, [*group, (turn, read_turn)], is_first)
                group, is_first = [], False
        if turn.role == "user" or group:
            group.append((turn, read_turn))
    if group:
        yield _request(session, [*group, (group[0][0], None)], is_first)


def wishes_of(kind: Sequence[PastRequest]) -> dict[str, tuple[str, ...]]:
    """What was wanted in requests of a kind, the last first, each with the sessions in which it was said. Of
    one session alone it is what was wanted for every time.
    """
    recurs = len({one.session.name for one in kind}) > 1
    found: dict[str, tuple[str, list[str]]] = {}
    for request in reversed(kind):
        for one in reversed(request.corrections):
            if one.lasting or recurs:
                entry = found.setdefault(folded(one.wanted), (one.wanted, []))
                entry[1].append(request.session.name)
    return {wish: tuple(dict.fromkeys(reversed(names))) for wish, names in found.values()}


def needs(request: Turn, tools: Sequence[ToolUse]) -> str:
    """Why a request cannot be asked again as text: it needs the machine, or what was said before. Material
    that was pasted into it is part of it.
    """
    words, material = pasted(request.text)
    if used := [tool.name for tool in tools if is_work(tool)]:
        return f"it was worked on with tools ({', '.join(dict.fromkeys(used[:5]))})"
    text = _QUOTATION.sub(" ", words)
    if request.clipped:
        return "the request is longer than is kept"
    if _ATTACHED.search(request.text):
        return "something was attached to it"
    if found := _PLACES.search(text):
        return f"it names a file ({found[0][:80]})"
    if (found := _HERE.search(text)) and not (material and _MATERIAL.search(found[0])):
        return f"it speaks of the repository ({found[0].lower()})"
    if not material and _POINTS_BACK.search(text):
        return "it leans on what was said before"
    return ""


def is_work(tool: ToolUse) -> bool:
    """Whether a tool looks at or changes the machine, beyond reading a skill."""
    return tool.name.casefold() not in _HARMLESS and "SKILL.md" not in tool.about


def _request(
    session: RecordedSession, group: Sequence[tuple[Turn, ReadTurn | None]], is_first: bool
) -> PastRequest:
    """The request of a group, whose last member is the turn after it; without a reading there is none."""
    request, first = group[0]
    accepted: list[tuple[str, str]] = []
    rejected: list[tuple[str, str]] = []
    corrections: list[Correction] = []
    outcome: RequestOutcome = "unknown"
    for answer, turn, read_turn, tools in _answered(group):
        record = record_of_tools(tools, answer, session.folder or session.project) if tools else ""
        if read_turn.reaction == "accepted":
            accepted.append((answer, record))
            outcome = outcome if corrections or outcome in ("corrected", "redone") else "accepted"
        elif read_turn.reaction in ("corrected", "redone"):
            outcome = "redone" if "redone" in (outcome, read_turn.reaction) else "corrected"
            if read_turn.lasting or read_turn.reaction == "redone":  # what is said for this once is no lesson
                rejected.append((answer, record))
                wanted = read_turn.wanted or turn.text
                corrections.append(Correction(text=turn.text, wanted=wanted, lasting=read_turn.lasting))
        elif read_turn.reaction == "abandoned" and outcome == "unknown":
            outcome = "abandoned"
        elif outcome == "accepted":
            outcome = "unknown"
    inner = [turn for turn, _ in group[:-1]]
    if outcome in ("unknown", "accepted") and any(turn.failed and turn.role == "assistant" for turn in inner):
        outcome = "corrected"
    every = tuple(tool for turn in inner for tool in turn.tools)
    return PastRequest(
        session=session,
        turn=request,
        form=normal(request.text),
        about="" if first is None else first.about,
        accepted=tuple(answer for answer, _ in accepted if answer),
        rejected=tuple(answer for answer, _ in rejected if answer),
        outcome=outcome,
        corrections=tuple(corrections),
        needs=_needs(request, first, every),
        tools=tuple(tool for tool in every if is_work(tool)),
        is_first=is_first,
        accepted_work=tuple(record for _, record in accepted if record),
        rejected_work=tuple(record for _, record in rejected if record),
    )


def _needs(request: Turn, first: ReadTurn | None, tools: Sequence[ToolUse]) -> str:
    """Why it cannot be asked again, as a model read it; where none did, by what the text names."""
    was_read = first is not None and bool(first.about or first.needs)
    if not was_read or request.clipped or _ATTACHED.search(request.text):
        return needs(request, tools)
    # Tools over pasted material may have been idle; tools without any did the work.
    if any(map(is_work, tools)) and not pasted(request.text)[1]:
        return needs(request, tools)
    return first.needs if first is not None else ""


def _answered(
    group: Sequence[tuple[Turn, ReadTurn | None]],
) -> Iterator[tuple[str, Turn, ReadTurn, tuple[ToolUse, ...]]]:
    """Each answer, which is the last text before the person speaks again, with that turn as it was read and
    all tools that had worked until then.
    """
    answer: str | None = None
    worked: list[ToolUse] = []
    called: list[ToolUse] = []
    for turn, read_turn in group[1:]:
        if turn.role == "assistant":
            called += turn.tools
            answer = (answer or "") if not turn.text else "" if turn.clipped else turn.text
        elif turn.role == "tool" and called:
            tool = called.pop(0)
            worked += [] if turn.failed else [tool]
        elif turn.role == "user" and read_turn is not None and answer is not None:
            worked, called = [*worked, *called], []  # a source may record no results
            yield answer, turn, read_turn, tuple(filter(is_work, worked))
            answer = None
