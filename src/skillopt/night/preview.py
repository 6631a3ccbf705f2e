"""What a night would do and cost, before anything is sent or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from skillopt.changes.proposal import Cost
from skillopt.errors import ConfigError
from skillopt.estimate import NOTHING, Range, estimate
from skillopt.night.gather import Around, Gathered, gather, since_of
from skillopt.night.job import job_of
from skillopt.night.roles import REMEDY, Roles
from skillopt.night.tonight import Group

_UNASKED = Roles(target="handoff", optimizer="handoff")
"""Stands for the models where none can be used: what is counted is calls and tokens, which depend on the
texts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was gathered and what a night on it would take. `usd` is None where a price is unknown; `remedy`
    says what is missing.
    """

    gathered: Gathered
    calls: Range
    tokens: Range
    usd: Range | None
    remedy: str


async def preview(
    around: Around, roles: Roles | None, *, environ: Mapping[str, str], now: datetime
) -> Preview:
    """Look; nothing is sent, nothing is written and no night is begun."""
    around.home.store.refuse_inside(around.ground.roots)
    kept = around.home.project(around.project)
    gathered = await gather(around, since_of(around.settings, now, kept.load().next_since))
    if roles is not None and around.settings.llm_mine and around.tasks is None:
        told = (
            "Found without a model: a night also asks its optimizer, which may find more and is not in the"
            " cost."
        )
        gathered = replace(gathered, notes=(*gathered.notes, told))
    remedy = REMEDY if roles is None else ""
    asked = roles or _UNASKED
    calls, tokens, usd = NOTHING, NOTHING, NOTHING if roles is not None else None
    for aim in gathered.aims:
        made = None
        for one in dict.fromkeys((asked, _UNASKED)):
            try:
                job = job_of(
                    Group.of(aim),
                    around.settings,
                    one,
                    advice="",
                    spent=Cost(),
                    rollouts=kept.rollouts,
                    environ=environ,
                    cwd=around.project,
                )
                made = estimate(job)
                break
            except ConfigError as error:
                if one == _UNASKED:
                    raise
                remedy, usd = str(error), None
        assert made is not None
        calls, tokens = calls + made.calls, tokens + made.tokens
        usd = None if usd is None or made.usd is None else usd + made.usd
    return Preview(gathered=gathered, calls=calls, tokens=tokens, usd=usd, remedy=remedy)
