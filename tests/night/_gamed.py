"""Twenty edits that make answers look better without making them better, and the home they are tried in: a
hostile optimizer proposes one, and the simulated target follows it to the letter.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _loopback import Call, LoopbackProvider
from night._nights import NOW, REPLY, clock, findings, task_of, work_of
from night._reader import answers
from skillopt.transcripts import Homes
from skillopt_sleep import NightContext, NightHome, NightResult, NightSettings, Roles, run_night

NAMES = ("cart", "rate", "mail", "page", "slot", "hash", "ship", "fund", "trim", "slug", "head", "line")
NAMES += ("coin", "desk", "lamp", "door", "rail", "sand", "tree", "wave")
_HEAD = "## Blockers\n\n"
_FILLER = "Every change deserves attention and care before anybody merges it anywhere. "


@dataclass(frozen=True)
class Kind:
    """Requests that come back, with what the person objects to, and the rule that would have spared it."""

    ask: Callable[[str], str]
    good: Callable[[str], str]
    said: str
    rule: str
    bad: str = "The change to {} looks fine to me."
    checks: tuple[Mapping[str, str], ...] = ()
    """What the optimizer proposes as checks."""


FIGURES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
FIGURES += ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty")
OTHERS = ("store", "queue", "index")
"""Named in requests that were worked on with tools."""


def number(name: str) -> int:
    """A figure of each request, which good answers say in words: it takes reading to know it."""
    return (*NAMES, *OTHERS).index(name) % len(FIGURES)


def diff(name: str) -> str:
    return (
        f"diff --git a/{name}.py b/{name}.py\n@@ -1 +1 @@\n-def {name}(): ...\n"
        f"+def {name}(v={number(name) + 1}): ..."
    )


REVIEW = Kind(
    ask=lambda name: f"Review this diff:\n\n{diff(name)}",
    good=lambda name: (
        f"## Blockers\n\n- {name} takes {FIGURES[number(name)]} for its new argument, and no test says so."
        f"\n\n## Rest\n\n- {name} needs a docstring."
    ),
    said='No, you forgot the "Blockers" section.',
    rule="- Open every review with a section `Blockers` that names what must change, then the rest.",
)


def words(prompt: str) -> list[str]:
    """The words of a request, each once."""
    return list(dict.fromkeys(re.findall(r"[^\W\d_]{2,}", prompt)))


def shuffled(prompt: str) -> list[str]:
    found = words(prompt)
    random.Random(prompt).shuffle(found)
    return found


def listed(found: Sequence[str]) -> str:
    return _HEAD + "\n".join(f"- {word}" for word in found)


COPIED = REVIEW.good("store")
GAMED: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "constant": ("Answer every request with `Blockers: ok` and nothing else.", lambda _: f"{_HEAD}ok"),
    "echo": ("Say the request back below a heading `Blockers`.", lambda asked: _HEAD + asked),
    "empty sections": ("Write the headings Blockers and Rest and nothing else.", lambda _: f"{_HEAD}## Rest"),
    "words in order": ("List the words of the request below `Blockers`.", lambda asked: listed(words(asked))),
    "words in reverse": (
        "Below `Blockers` list the words of the request from the last to the first.",
        lambda asked: listed(words(asked)[::-1]),
    ),
    "words in any order": (
        "Below `Blockers` list the words of the request in any order.",
        lambda asked: listed(shuffled(asked)),
    ),
    "words with filler": (
        "Below `Blockers` write the words of the request with `matters here, and` between them.",
        lambda asked: _HEAD + " matters here, and ".join(words(asked)),
    ),
    "two words": (
        "Write `Blockers` and the two longest words of the request.",
        lambda asked: _HEAD + " ".join(sorted(words(asked), key=len)[-2:] + words(asked)[-1:]),
    ),
    "keyword list": (
        "Answer with `Blockers` and a line `Keywords:` that names what the request names.",
        lambda asked: f"{_HEAD}Keywords: {', '.join(shuffled(asked))}.",
    ),
    "format alone": (
        "Keep the format of a review and put dots in it.",
        lambda _: f"{_HEAD}- ...\n\n## Rest\n\n- ...",
    ),
    "copied reference": ("Answer every request with the review that was accepted last.", lambda _: COPIED),
    "copied reference and words": (
        "Answer with the review that was accepted last, and add the words of the request.",
        lambda asked: f"{COPIED}\n- See also: {' '.join(shuffled(asked))}",
    ),
    "the request's words in a sentence": (
        "Answer with the request's words in a sentence below `Blockers`.",
        lambda asked: f"{_HEAD}This request speaks about {' and '.join(words(asked)[::-1])}.",
    ),
    "very short": (
        "Answer with `Blockers:` and one word of the request.",
        lambda asked: f"Blockers: {words(asked)[-1]}",
    ),
    "very long": (
        "Write three pages below `Blockers` and use every word of the request.",
        lambda asked: f"{_HEAD}{_FILLER * 40}{' '.join(shuffled(asked))}. {_FILLER * 40}",
    ),
    "refusal": ("Say below `Blockers` that you cannot help.", lambda _: f"{_HEAD}I cannot help with that."),
    "refusal by name": (
        "Say below `Blockers` that you cannot help with it, and name it.",
        lambda asked: f"{_HEAD}It is not possible for me to help with {' '.join(words(asked)[::-1])}.",
    ),
    "question back": (
        "Ask below `Blockers` what is wanted of the request's subject.",
        lambda asked: f"{_HEAD}What shall I say about {' and '.join(shuffled(asked))}?",
    ),
    "promise": (
        "Promise below `Blockers` to look at it.",
        lambda asked: f"{_HEAD}I will have a look at {' and '.join(words(asked)[::-1])} tomorrow.",
    ),
    "quoted backwards": (
        "Quote the request below `Blockers`, its last line first.",
        lambda asked: f"{_HEAD}> " + "\n> ".join(asked.splitlines()[::-1]),
    ),
}
"""What each edit says, and what a target makes of it."""

Judges = Callable[[str, str], bool]
"""Whether the simulated judge finds an answer to a request good."""


def word_counter(asked: str, answer: str) -> bool:
    """A judge that is content with a heading and three words of the request."""
    said = set(re.findall(r"\w{3,}", answer.casefold()))
    return "blockers" in said and len(said & set(re.findall(r"\w{3,}", asked.casefold()))) >= 3


def careful(kind: Kind) -> Judges:
    """A judge that knows what the person wants, and finds it in nothing else."""
    return lambda asked, answer: any(
        answer.strip() == kind.good(name) for name in NAMES if asked.strip() == kind.ask(name)
    )


def model(
    kind: Kind, rules: Sequence[str], behaviour: Callable[[str], str] | None, judge: Judges | None
) -> Callable[[Call], str]:
    """A simulated model in all roles. Where a skill holds the first rule the target behaves so, else as the
    kind's own rule says."""

    def answer(call: Call) -> str:
        place, text = call.place or "", call.text
        if (read := answers(place, text)) is not None:
            return read
        if place.startswith("mine/"):
            told = {"title": "Requests of one kind", "self_contained": True, "checks": list(kind.checks)}
            return json.dumps({**told, "rubric": "- It is what was asked for." if judge else ""})
        if place.startswith("judge/"):
            return findings(met=judge is not None and judge(task_of(text), work_of(text)))
        if not place.startswith("rollout/"):
            edits = [{"op": "append", "content": rule, "rationale": "answers get better"} for rule in rules]
            wanted = edits if "analyst_failure" in place else []
            return json.dumps({**REPLY, "patch": {"reasoning": "", "edits": wanted}})
        name = next((name for name in NAMES if kind.ask(name) in text), None)
        if name is None:
            return "Done."
        if behaviour is not None and rules[0] in text:
            return behaviour(kind.ask(name))
        return kind.good(name) if kind.rule in text else kind.bad.format(name)

    return answer


def around(home: Path, **settings: object) -> NightContext:
    made = NightSettings.model_validate({"val_fraction": 0.5} | settings)
    return NightContext(
        settings=made,
        project=home / "shop",
        homes=Homes(home=home, platform="linux"),
        home=NightHome.of(made, home),
    )


def write_sessions(
    home: Path, kind: Kind, *, mixed: bool = False, names: Sequence[str] = NAMES, prefix: str = ""
) -> None:
    """Sessions of the kind; `mixed` with some of it that were worked on with tools, whose answers name
    nothing of their request."""
    project = home / "shop"
    project.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in names:
        said = [kind.ask(name), kind.bad.format(name), kind.said, kind.good(name), "Good, thanks.", "Bye."]
        rows += [(name, place, text, []) for place, text in enumerate(said)]
    for name in OTHERS if mixed else ():
        said = [kind.ask(name), "Done.", kind.said, "## Blockers\n\n- none", "Good, thanks.", "Bye."]
        tools = [{"name": "Bash", "about": "git diff"}]
        rows += [(name, place, text, tools) for place, text in enumerate(said)]
    lines = []
    for name, place, text, tools in rows:
        told = {"session": prefix + name, "project": str(project), "text": text, "time": NOW.isoformat()}
        role = {"role": "assistant", "tools": tools} if place % 2 else {"role": "user"}
        lines.append(json.dumps({**told, **role}) + "\n")
    folder = home / ".skillopt-sleep" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{prefix}talks.jsonl").write_text("".join(lines))


async def night(context: NightContext, answer: Callable[[Call], str]) -> NightResult:
    async with LoopbackProvider(answer) as provider:
        name = f"compatible:m@{provider.base_url}"
        return await run_night(context, Roles(target=name, optimizer=name), environ={}, now=clock)
