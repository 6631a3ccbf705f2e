"""What a night would do and cost, before anything is sent or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from skillopt.errors import ConfigError
from skillopt.messages import Usage
from skillopt.money import cost
from skillopt.run.estimation import NOTHING, Range, estimate
from skillopt.run.models import known_price
from skillopt.transcripts.session import RecordedSession
from skillopt_sleep.context import NightContext
from skillopt_sleep.gather import NO_SKILL, at_once, gather, since_of
from skillopt_sleep.job import NightJobs
from skillopt_sleep.plan import NightInput
from skillopt_sleep.readings import MOST_READ, batches, read_messages
from skillopt_sleep.settings import REMEDY, Roles

_BY_HAND = Roles(target="handoff", optimizer="handoff")
"""Stands in where no model can be used: calls and tokens depend on the texts alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was found and would be spent; `usd` is None for an unknown price, `remedy` for the person."""

    found: NightInput
    calls: Range
    tokens: Range
    usd: Range | None
    remedy: str
    to_read: int
    """Sessions a model would read, which is in the cost."""


async def preview(
    context: NightContext, roles: Roles | None, *, environ: Mapping[str, str], now: datetime
) -> Preview:
    """Look; nothing is sent, nothing is written and no night is begun."""
    context.check_places()
    since = since_of(context.settings, now, context.kept.load().next_since)
    found = await gather(context, since, replays=roles is not None and roles.replays)
    to_read: Sequence[RecordedSession] = ()
    if context.tasks is None:
        to_read = found.unread[-MOST_READ:]
        later = (
            "The cost is that of reading; what is trained on then comes on top, within tonight's allowance."
        )
        found = replace(found, notes=(*found.notes, *([later] if to_read else [])))
    jobs = context.jobs(roles or _BY_HAND, environ)
    remedy = REMEDY if roles is None else ""
    calls, tokens, usd = NOTHING, NOTHING, NOTHING if roles is not None else None
    try:
        jobs.job(NO_SKILL)
        jobs.reader.job(NO_SKILL)
    except ConfigError as error:
        if roles is None:
            raise
        remedy, usd = str(error), None
        settings = context.settings.model_copy(update={"reader_model": ""})
        jobs = replace(context, settings=settings).jobs(_BY_HAND, environ)
    for target in found.targets:
        made = estimate(jobs.job(target))
        calls, tokens = calls + made.calls, tokens + made.tokens
        usd = None if usd is None or made.usd is None else usd + made.usd
    if to_read:
        asked, read, paid = _reading(jobs, to_read)
        calls, tokens = calls + asked, tokens + read
        usd = None if usd is None or paid is None else usd + paid
    return Preview(found=found, calls=calls, tokens=tokens, usd=usd, remedy=remedy, to_read=len(to_read))


def _reading(jobs: NightJobs, sessions: Sequence[RecordedSession]) -> tuple[Range, Range, Range | None]:
    """Calls, tokens and dollars of reading these sessions."""
    job = jobs.reader.job(NO_SKILL)
    asked = [
        sum(len(message.content) for message in read_messages(batch))
        for batch in batches(sessions, at_once(job))
    ]
    turns = sum(turn.role == "user" for session in sessions for turn in session.turns)
    # Four characters a token is the middle of what texts take; a turn is told in some fifty.
    used = Usage(input_tokens=sum(asked) // 4, output_tokens=50 * turns)
    price = known_price(job.optimizer)
    tokens = used.input_tokens + used.output_tokens
    return (
        Range(low=len(asked), likely=len(asked), high=2 * len(asked)),
        Range(low=0.7 * tokens, likely=tokens, high=2 * tokens),
        None if price is None else _around(float(cost(used, price))),
    )


def _around(dollars: float) -> Range:
    return Range(low=0.7 * dollars, likely=dollars, high=2 * dollars)
