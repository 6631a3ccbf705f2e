"""What a night would do and cost, before anything is sent or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from skillopt.errors import ConfigError
from skillopt.estimation import NOTHING, Range, estimate
from skillopt.night.context import NightContext
from skillopt.night.gather import Gathered, gather, since_of
from skillopt.night.roles import REMEDY, Roles

_BY_HAND = Roles(target="handoff", optimizer="handoff")
"""Stands in where no model can be used: calls and tokens depend on the texts alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was gathered and would be spent; `usd` is None for an unknown price, `remedy` for the person."""

    gathered: Gathered
    calls: Range
    tokens: Range
    usd: Range | None
    remedy: str


async def preview(
    context: NightContext, roles: Roles | None, *, environ: Mapping[str, str], now: datetime
) -> Preview:
    """Look; nothing is sent, nothing is written and no night is begun."""
    context.home.store.refuse_inside(context.places.roots)
    gathered = await gather(context, since_of(context.settings, now, context.kept.load().next_since))
    if roles is not None and context.settings.llm_mine and context.tasks is None:
        told = (
            "Found without a model: a night also asks its optimizer, which may find more and is not in the"
            " cost."
        )
        gathered = replace(gathered, notes=(*gathered.notes, told))
    jobs = context.jobs(roles or _BY_HAND, environ)
    remedy = REMEDY if roles is None else ""
    calls, tokens, usd = NOTHING, NOTHING, NOTHING if roles is not None else None
    for target in gathered.targets:
        try:
            made = estimate(jobs.job(target))
        except ConfigError as error:
            if jobs.roles == _BY_HAND:
                raise
            remedy, usd, jobs = str(error), None, replace(jobs, roles=_BY_HAND)
            made = estimate(jobs.job(target))
        calls, tokens = calls + made.calls, tokens + made.tokens
        usd = None if usd is None or made.usd is None else usd + made.usd
    return Preview(gathered=gathered, calls=calls, tokens=tokens, usd=usd, remedy=remedy)
