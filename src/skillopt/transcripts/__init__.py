"""Sessions that people had with agents: where they lie, how one is read, and the harvest of all of them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from skillopt.redact import redact_transcript
from skillopt.transcripts.session import Harvest, Homes, RecordedSession, Redact, TranscriptSource

__all__ = ["Homes", "TranscriptSource", "harvest"]


MOST_SESSIONS = 2_000


def harvest(
    sources: Iterable[TranscriptSource],
    since: datetime | None = None,
    redact: Redact = redact_transcript,
    *,
    most: int = MOST_SESSIONS,
) -> Harvest:
    """Every session of a person that ended at `since` or later, redacted, our own calls left out.

    Where there are more than `most`, the oldest are kept and `next_since` stops there, so that the next
    harvest goes on with the rest and none is skipped for ever. Memory is bounded by `most`.
    """
    if since is not None and since.tzinfo is None:
        raise ValueError("since has no time zone; sessions are in UTC")
    found, counted = Harvest(), Counter[str]()

    def sessions_of_people() -> Iterator[RecordedSession]:
        for source in sources:
            for session in source.sessions(since, redact=redact, tally=found):
                found.next_since = max(session.ended, found.next_since or session.ended)
                if session.is_ours:
                    found.dropped["our own call"] += 1
                else:
                    counted["theirs"] += 1
                    yield session

    sessions = heapq.nsmallest(
        most, sessions_of_people(), key=lambda session: (session.ended, session.source, session.id)
    )
    if over := counted["theirs"] - len(sessions):
        found.dropped["over the limit, left for the next harvest"] = over
        found.next_since = sessions[-1].ended if sessions else found.next_since
    found.sessions = tuple(sessions)
    return found
