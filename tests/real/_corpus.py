"""Sixty-eight sessions of a made person, as they are to be run through the real agents: what is said, what the
simulated model answers and which command it runs, and in which state each session should end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["task", "suggestion", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One session: pairs of what the person says and what the model answers."""

    topic: str
    agent: Literal["claude", "codex"]
    turns: tuple[tuple[str, str], ...]
    expected: State
    folder: str = "shop"
    commands: tuple[str, ...] = ()
    """What the model runs in the shell before its first answer."""
    again: tuple[str, ...] = ()
    """What it runs before its second."""
    skill: str = ""
    """Name of the skill that the model loads first (Claude Code), or reads (Codex)."""


FUNCTIONS = (
    "parse_header",
    "load_cart",
    "ship_order",
    "refund",
    "sum_lines",
    "rate_of",
    "slugify",
    "retry_once",
)
FUNCTIONS += ("page_of", "hash_key", "trim_cache", "next_slot")
BRIEFS = (
    "free tiers for small teams",
    "opening the bakery on Sundays",
    "renting out our tools",
    "a second warehouse",
)
BRIEFS += ("closing the branch in Lund", "paying by invoice", "a summer internship", "selling at the market")
ERRORS = (
    "KeyError: 'id'",
    "TypeError: 'NoneType' object is not iterable",
    "ZeroDivisionError: division by zero",
)
ERRORS += ("json.decoder.JSONDecodeError: Expecting value", "FileNotFoundError: rates.csv", "RecursionError")
KUNDEN = ("Frau Aydin wegen der Rechnung", "Herrn Koch zum Liefertermin", "das Team zur neuen Kasse")
KUNDEN += ("Familie Lang zur Reklamation", "den Vermieter zur Heizung", "die Schule zum Besuch")
CHANGES = (
    "a retry to the mailer",
    "a flag for dry runs",
    "a cache for rates",
    "a test for refunds",
    "an index page",
)
CHANGES += ("a check for empty carts",)
NOTES = ("mailer", "dryrun", "rates", "refunds", "index", "carts")


def talks() -> Iterator[Talk]:
    """Every session, in the order in which they took place."""
    yield from _reviews()
    yield from _texts()
    yield from _tool_work()
    yield from _others()


def _reviews() -> Iterator[Talk]:
    """Pasted diffs, the same correction each time; and pasted errors."""
    for number, name in enumerate(FUNCTIONS):
        diff = f"diff --git a/src/{name}.py b/src/{name}.py\n@@ -1,2 +1,3 @@\n def {name}(value):\n"
        diff += f"-    return value\n+    log(value)\n+    return value[{number}]\n"
        good = (
            f"Blockers:\n- {name} indexes value[{number}] without a check.\n\nRest:\n- {name} logs its input."
        )
        yield Talk(
            topic="review",
            agent="claude" if number % 2 else "codex",
            turns=(
                (
                    f"Review this diff:\n\n{diff}",
                    f"{name} now logs its input and returns one element. Fine overall.",
                ),
                ("No. Our reviews start with a line `Blockers:` and list what must change first.", good),
                ("Good, thanks.", "Any time."),
            ),
            expected="task",
        )
    for number, error in enumerate(ERRORS):
        trace = f'Traceback (most recent call last):\n  File "shop/rates.py", line {40 + number}, in rate\n{error}'
        good = (
            f"Cause: rate() at line {40 + number} lets {error.split(':')[0]} through.\nFix: guard the input."
        )
        yield Talk(
            topic="error",
            agent="codex" if number % 2 else "claude",
            turns=(
                (
                    f"What went wrong here?\n\n```\n{trace}\n```",
                    f"There is a {error.split(':')[0]}. Many things cause it.",
                ),
                ("hmm, I'd rather have one line with the cause and one with the fix", good),
                ("yes, like that", "Good."),
            ),
            expected="task",
        )


def _texts() -> Iterator[Talk]:
    """Text alone: a lasting wish, softly put, in English and in German."""
    for number, subject in enumerate(BRIEFS):
        soft = number >= 4
        said = (
            "could these close with what we would have to give up?"
            if soft
            else "Always end with the costs, please."
        )
        good = f"On {subject}: yes, with care.\n\nCosts: for {subject} we give up a month of work."
        yield Talk(
            topic="brief",
            agent="claude" if number % 2 else "codex",
            skill="brief-writer",
            turns=(
                (
                    f"Write a short brief about {subject}.",
                    f"{subject.capitalize()} sounds good and we should do it.",
                ),
                (said, good),
                ("that's it, thank you", "Glad to help."),
            ),
            expected="task",
        )
    for number, wem in enumerate(KUNDEN):
        gut = f"Liebe Leute, hallo! Zu dir, {wem}: wir melden uns morgen bei dir. Viele Grüße"
        yield Talk(
            topic="mail",
            agent="codex" if number % 2 else "claude",
            turns=(
                (
                    f"Schreib eine kurze Mail an {wem}.",
                    f"Sehr geehrte Damen und Herren, bezüglich {wem} melden wir uns.",
                ),
                ("Eigentlich duzen wir alle, das gilt für jede Mail.", gut),
                ("passt so", "Gern."),
            ),
            expected="task",
        )


def _tool_work() -> Iterator[Talk]:
    """Work in the repository: six with Claude Code, four with Codex, each corrected in the same two ways."""
    for number, change in enumerate(CHANGES):
        name = f"note{number}.txt"
        yield Talk(
            topic="change",
            agent="claude",
            commands=(f"echo '{change}' > {name}", f"git add {name}", f"git commit -qm 'added {change}'"),
            turns=(
                (f"Add {change} in {name} and commit it.", f"Done: {name} holds {change}, committed."),
                (
                    "Wrong commit message: we use conventional commits, feat: or fix: in front. And run the tests first.",
                    f"Amended to `feat: {change}` after the tests ran.",
                ),
                ("ok good", "Good."),
            ),
            expected="suggestion",
        )
    for number in range(4):
        yield Talk(
            topic="change",
            agent="codex",
            commands=(f"echo {number} > version{number}.txt",),
            turns=(
                (
                    f"Bump the version file version{number}.txt to {number}.",
                    f"version{number}.txt says {number}.",
                ),
                ("please add a line to CHANGELOG.md with every version bump, from now on", "Added a line."),
            ),
            expected="suggestion",
        )


def tool_talks() -> list[Talk]:
    """Six sessions of Claude Code in a repository, beside the corpus: each is corrected in the same way, and
    the model then really does as it was told.
    """
    return [
        Talk(
            topic="commit",
            agent="claude",
            commands=(
                f"echo '{change}' > {name}",
                f"git add {name} && git commit -qm 'added {change}'",
            ),
            again=("sh run-tests.sh", f"git commit -q --amend -m 'feat: add {change}'"),
            turns=(
                (f"Put {change} into {name} and commit it.", f"Done: {name} holds {change}, committed."),
                (
                    "Wrong commit message: we use conventional commits, feat: or fix: in front. And run the tests first.",
                    f"The tests pass, and the message is now `feat: add {change}`.",
                ),
                ("ok good", "Good."),
            ),
            expected="task",
        )
        for name, change in zip((f"{word}.txt" for word in NOTES), CHANGES, strict=True)
    ]


def _others() -> Iterator[Talk]:
    """Sub-folders, skills of a plug-in, two skills in one session, acceptance alone, and plain questions."""
    for number in range(6):
        yield Talk(
            topic="release note",
            agent="claude" if number % 2 else "codex",
            folder=("shop/services/api", "shop/services/web", "shop")[number % 3],
            turns=(
                (f"Write a release note for version 2.{number}: faster search, {number + 2} fixes.",
                 f"We refactored the index in 2.{number} and closed {number + 2} bugs."),
                ("Our release notes are for users, so say what they can do now, not what we changed.",
                 f"2.{number}: you find things faster, and {number + 2} annoyances are gone."),
                ("perfect", "Thanks."),
            ),
            expected="task",
        )  # fmt: skip
    for number in range(4):
        yield Talk(
            topic="plugin",
            agent="claude",
            skill="tools:minutes",
            turns=(
                (f"Turn this into minutes: Ann proposes date {number + 3} May. Bo agrees. Cy books room {number}.",
                 f"There was a meeting about date {number + 3} May and room {number}."),
                ("we always list decisions with a name behind each", f"Decisions: {number + 3} May (Ann), room {number} (Cy)."),
            ),
            expected="task",
        )  # fmt: skip
    for number in range(4):
        yield Talk(
            topic="two skills",
            agent="claude",
            skill="brief-writer,slogans",
            turns=(
                (f"Write a brief with a slogan for campaign {number}: rain coats, {number + 2} colours.",
                 f"Campaign {number}: buy our rain coats in {number + 2} colours!!!"),
                ("no exclamation marks in anything of ours", f"Campaign {number}: rain coats in {number + 2} colours."),
                ("good", "Good."),
            ),
            expected="task",
        )  # fmt: skip
    for number in range(6):
        yield Talk(
            topic="accepted",
            agent="claude" if number % 2 else "codex",
            turns=(
                (f"Name {number + 3} synonyms of quick.", "fast, swift, rapid, brisk, speedy, fleet"[: 14 + 7 * number]),
                ("great, thanks", "You're welcome."),
            ),
            expected="nothing",
        )  # fmt: skip
    for number, question in enumerate(
        ("What is a monad?", "How far is the moon?", "Who wrote Emma?", "What is 17 * 23?")
    ):
        yield Talk(
            topic="question",
            agent="codex" if number % 2 else "claude",
            turns=((question, "A short answer."), ("And how is that used?", "In several ways.")),
            expected="nothing",
        )


def everybody() -> Sequence[Talk]:
    """All of them at once."""
    return tuple(talks())
