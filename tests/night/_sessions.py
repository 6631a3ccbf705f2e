"""Sessions made by hand, for what is decided about them after they were read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from skillopt.transcripts.session import RecordedSession, ToolUse, Turn

START = datetime(2026, 11, 1, 9, 0, tzinfo=timezone.utc)
SUBJECTS = (
    *(
        "a seed-stage startup should ship a free tier",
        "a two-person team should adopt Kubernetes",
        "to open-source a core library",
    ),
    *(
        "a SaaS should move to seat-based pricing",
        "a fintech should build payments in-house",
        "to hire a first salesperson now",
    ),
    *(
        "a marketplace should subsidise supply first",
        "an agency should drop its smallest client",
        "a bakery should open on Sundays",
    ),
    *(
        "a school should buy tablets for everybody",
        "a museum should charge for entry",
        "a town should close its main street to cars",
    ),
    *(
        "a library should lend tools",
        "a farm should sell directly",
        "a hotel should allow pets",
        "a band should tour this summer",
    ),
    *(
        "a clinic should extend its hours",
        "a gym should end yearly contracts",
        "a bank should close branches",
        "a zoo should keep elephants",
    ),
)
GOOD = "# Brief\n\nShip it.\n\n## Key Risks\n\n- Costs\n"
BAD = "A long text about everything and nothing."


def good(subject: str) -> str:
    """A brief on the subject as the person wants it."""
    return f"On whether {subject}: yes.\n\n{GOOD}"


def session(
    number: int,
    *said: str | tuple[str, ...] | Turn,
    project: str = "/home/ann/shop",
    skills: Sequence[str] = (),
    gap: float = 24,
) -> RecordedSession:
    """A session that alternates between person and agent; a turn stands as it is, and a pair is an answer
    with the tools it used.
    """
    turns: list[Turn] = []
    for place, text in enumerate(said):
        if isinstance(text, Turn):
            turns.append(text)
        elif isinstance(text, tuple):
            turns.append(
                Turn(role="assistant", text=text[0], tools=tuple(ToolUse(name=name) for name in text[1:]))
            )
        else:
            turns.append(Turn(role="assistant" if place % 2 else "user", text=text))
    start = START + timedelta(hours=gap * number)
    return RecordedSession(
        source="jsonl",
        id=f"s{number}",
        project=project,
        started=start,
        ended=start + timedelta(minutes=5),
        turns=tuple(turns),
        skills=tuple(skills),
    )


def brief(number: int, objection: str, *, bad: str = BAD, good: str = GOOD, **more: Any) -> RecordedSession:
    """A brief that the person speaks against first, and is content with in the end."""
    request = f"Write a brief on whether {SUBJECTS[number]}."
    return session(number, request, bad, objection, good, "Perfect, thanks", "Bye.", **more)


def briefs(count: int = 20, *, project: str = "/home/ann/shop") -> list[RecordedSession]:
    """A person who wants briefs with a section on risks, has to say so each time, and is
    content in the end.
    """
    return [
        brief(
            number,
            'No, you forgot the "Key Risks" section.',
            bad=f"{BAD} ({number})",
            good=f"{good(subject)} ({number})",
            project=project,
            skills=("brief-writer",),
        )
        for number, subject in enumerate(SUBJECTS[:count])
    ]
