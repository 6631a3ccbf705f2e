"""Groups requests into kinds without a model: by the same opening words, or by enough words in common."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from skillopt.transcripts.session import RecordedSession, ToolUse, Turn
from skillopt_sleep.readings import ReadTurn, SessionReading
from skillopt_sleep.worktrees import Worktree, record_of_tools

ALIKE = Fraction(1, 2)
"""The share of common words and pairs of words from which two requests are of one kind."""
_MOST_COMPARED = 500
_FENCED = re.compile(r"```[^\n]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]{1,200}`")
PASTED = re.compile(
    r"^(?:[+\-@<>{}\[\]|#$*]|\s{2,}\S|diff |index |def |class |import |from \w+ import|function |Traceback"
    r"|File |at \w|\d{2,4}[-:]\d|\w+(?:Error|Exception)\b|(?:select|insert|update) "
    r"|(?:error|warn(?:ing)?|info|debug|fatal|critical)\]?:)"
    r"|[{};]\s*$|\w\(.*\)|^\s*\"\w+\":",
    re.IGNORECASE,
)
"""What a line of a diff, a program, a log or JSON looks like."""
_URL = re.compile(r"\bhttps?://\S+", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w/.~@-])(?:~|\.{1,2})?/?(?:[\w.@-]+/)+[\w.@-]*|(?<![\w./-])[\w-]+\.[a-z]{1,5}(?![\w.])", re.ASCII
)
_HASH = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b")
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?<!\w)'[^'\n]{1,300}'(?!\w)")
_NUMBER = re.compile(r"\b\w*\d[\w.,]*")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NO_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")
_POLITE = (
    "please can could would you i we want need help me us hey hi hello let let's like to just kindly now ok"
    " okay"
)
_SMALL = (
    "a an the of on in at for and or with by from is are be it this that my our as so if do does should into"
    " about some your"
)
_STOP = frozenset(f"{_POLITE} {_SMALL}".split())


def pasted(text: str) -> tuple[str, str]:
    """The words of a request, and the material that was pasted with them: fenced, below a line that ends with
    a colon, or lines that look like a diff, a program, a log or JSON.
    """
    if found := _FENCED.findall(text):
        return _FENCED.sub(" code ", text), "\n".join(found)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if len(lines) < 3:
        return text, ""
    marked = [bool(PASTED.search(line)) for line in lines]
    if lines[0].rstrip().endswith(":") and not lines[0].startswith("Traceback"):
        return lines[0], "\n".join(lines[1:])
    if 2 * sum(marked) < len(lines) - 1:
        return text, ""
    first, last = marked.index(True), len(marked) - marked[::-1].index(True)
    return "\n".join([*lines[:first], *lines[last:]]), "\n".join(lines[first:last])


def folded(text: str) -> str:
    """A text by its words and marks alone, whatever their case and layout."""
    return " ".join(text.casefold().split())


def normal(text: str) -> str:
    """A request without numbers, paths, links, quotes and material, and a digest of all of these. Equal
    normal forms are the same task; another input is another task.
    """
    words, material = pasted(unicodedata.normalize("NFKC", text[:20_000]))
    inputs = [material]

    def taken(word: str) -> Callable[[re.Match[str]], str]:
        return lambda match: inputs.append(match[0].strip(".,")) or f" {word} "  # type: ignore[func-returns-value]

    for pattern, word in ((_CODE, "code"), (_URL, "link"), (_QUOTED, "quote"), (_PATH, "path")):
        words = pattern.sub(taken(word), words)
    words = _NUMBER.sub(taken("number"), _HASH.sub(taken("hash"), words.casefold()))
    joined = " ".join("\0".join(inputs).casefold().split())
    digest = [f"#{hashlib.sha256(joined.encode('utf-8', 'replace')).hexdigest()[:8]}"] if joined else []
    return " ".join([*words_of(words), *digest]) if words_of(words) or material else ""


def opening(form: str) -> str:
    """What a normal form asks for in two words; empty where it is too short to tell."""
    words = _content(form)
    return " ".join(words[:2]) if len(words) >= 4 else ""


def features(form: str) -> frozenset[str]:
    """The words and pairs of words by which normal forms are compared."""
    words = _content(form)
    return frozenset(words) | {f"{first} {second}" for first, second in pairwise(words)}


def alike(one: frozenset[str], other: frozenset[str]) -> Fraction:
    """The share of what both have of what either has; nothing is like nothing."""
    both = len(one & other)
    return Fraction(both, len(one) + len(other) - both) if both else Fraction(0)


def kinds(forms: Sequence[str]) -> list[int]:
    """For each normal form the number of its kind. The same forms in any order fall into the same kinds.

    Kinds are joined by opening first. The rest are compared with one leader a kind, found over their rarest
    features, which finds every leader that is alike enough (prefix filtering) without comparing all with all.
    """
    distinct = sorted(set(forms))
    by_form = {form: features(form) for form in distinct}
    spread = Counter(feature for found in by_form.values() for feature in found)
    home = {form: form for form in distinct}
    leaders: dict[str, str] = {}
    index: dict[str, list[str]] = defaultdict(list)
    for form in distinct:
        begins = opening(form)
        leader = leaders.get(begins) if begins else None
        rare = sorted(by_form[form], key=lambda feature: (spread[feature], feature))
        # A pair that is alike enough has a feature in common among these.
        rare = rare[: len(rare) - -(-len(rare) * ALIKE.numerator // ALIKE.denominator) + 1] if rare else []
        if leader is None:
            near = dict.fromkeys(leader for feature in rare for leader in index.get(feature, ()))
            best = max(
                list(near)[:_MOST_COMPARED],
                key=lambda leader: (alike(by_form[form], by_form[leader]), leader),
                default=None,
            )
            leader = best if best is not None and alike(by_form[form], by_form[best]) >= ALIKE else None
        if leader is None:
            leader = form
            for feature in rare:
                index[feature].append(form)
        home[form] = leader
        if begins:
            leaders.setdefault(begins, leader)
    numbers = {leader: number for number, leader in enumerate(dict.fromkeys(home[form] for form in distinct))}
    return [numbers[home[form]] for form in forms]


def _content(form: str) -> list[str]:
    return [word for word in form.split() if word not in _STOP and not word.startswith("#")]


def words_of(text: str, pattern: re.Pattern[str] = _WORD) -> list[str]:
    """Words; writing without spaces is cut into pairs of characters."""
    words: list[str] = []
    for word in pattern.findall(text):
        if _NO_SPACES.fullmatch(word):
            words += [word[place : place + 2] for place in range(len(word) - 1)]
        else:
            words.append(word)
    return words


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
