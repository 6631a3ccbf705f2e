"""How figures, outcomes and decisions of a run read: one wording for terminal, report and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.evaluation.compare import Comparison
from skillopt.events import (
    Checkpoint,
    EpochEnded,
    Event,
    HandedOver,
    Notice,
    Pruned,
    RunStarted,
    StageClosed,
    TestMeasured,
)
from skillopt.events.records import ReopenedRecord, StepRecord
from skillopt.messages import Role
from skillopt.money import Total

UNKNOWN = "unknown"
NOT_MEASURED = "not measured"
START_NAME = "the start"
"""The skill that training began with, where it was not the seed."""
LONGEST_MARKS = 40
"""Marks of earlier steps are left out beyond this many."""
SIGNS = {"accepted": "●", "rejected": "×", "unchanged": "○", "inconclusive": "?", "taken without a gate": "◆"}
"""One shape per outcome, so that nothing is shown by colour alone."""
_OUTCOMES = {
    "accept": "accepted",
    "accept_new_best": "accepted",
    "force_accept": "taken without a gate",
    "reject": "rejected",
    "skip_no_patches": "unchanged",
    "skip_no_rewrite": "unchanged",
    "no_content": "unchanged",
    "start": "trained before",
}


def score(value: float | None) -> str:
    """A score with three decimals; one that was not measured says so."""
    return NOT_MEASURED if value is None else f"{value:.3f}"


def change(before: float | None, after: float | None) -> str:
    """The signed difference of two scores; blank where one of them is missing."""
    return "" if before is None or after is None else f"{after - before:+.3f}"


def shortened(text: str, most: int) -> str:
    """A text as far as it is shown, to the end of a word, and how long it is."""
    if len(text) <= most:
        return text
    shown = text[: most + 1].rsplit(None, 1)[0][:most]
    return f"{shown} ... ({len(text):,} characters)"


def one_line(text: str, most: int) -> str:
    """A text on one line, to the end of a word."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3].rsplit(' ', 1)[0][: most - 4]} ..."


def interval(of: Comparison) -> str:
    """The interval of a change."""
    return f"{of.level} % interval {of.interval[0]:+.3f} to {of.interval[1]:+.3f}"


def proof(of: Comparison) -> str:
    """How sure a change is, and what that proves."""
    return f"{interval(of)}, p = {of.p:.2g} ({of.test}): {of.significance}"


def money(usd: float | None) -> str:
    """Dollars, or unknown: a price nobody knows is not zero."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd == 0 or usd >= 1 else f"${usd:.4f}"


def amount(number: int | None) -> str:
    """A number, or unknown."""
    return UNKNOWN if number is None else f"{number:,}"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def spent(calls: int, tokens: int, usd: float | None) -> str:
    """What was paid, in one line."""
    return f"{count(calls, 'call')}, {count(tokens, 'token')}, cost {money(usd)}"


def reserved(calls: int, tokens: int, waited: float | None = None) -> str:
    """How many calls are in flight, for how long, and what is set aside for them beside what was paid."""
    since = "" if waited is None else f" for {duration(waited)}"
    return f"{calls} in flight{since}, with {count(tokens, 'token')} reserved" if calls else "0 in flight"


def subject(started: RunStarted) -> str:
    """What is trained, and with which models."""
    return f"{started.benchmark} · target {started.target} · optimizer {started.optimizer}"


def outcome(action: str) -> str:
    """The word for what became of a change of the skill."""
    return _OUTCOMES.get(action, action)


def outcomes(actions: Iterable[str]) -> str:
    """How many steps ended how."""
    counted = Counter(map(outcome, actions))
    words = [word for word in SIGNS if counted[word]] + [word for word in counted if word not in SIGNS]
    return ", ".join(f"{counted[word]} {word}" for word in words) or "none"


def marks(actions: Iterable[str]) -> str:
    """One sign per step, in order; a row that is too long keeps only its end."""
    signs = [SIGNS.get(outcome(action), "·") for action in actions]
    left_out = len(signs) - LONGEST_MARKS
    return "".join(signs) if left_out <= 0 else f"…{''.join(signs[left_out:])}"


def origin(name: str, *, is_seed: bool) -> str:
    """Where a skill comes from, which is called `step_0005` in files."""
    if name == "initial_skill":
        return "the seed" if is_seed else START_NAME
    where, _, number = name.rpartition("_")
    return f"{where.replace('_', ' ')} {int(number)}" if number.isdigit() else name


def edit(data: Mapping[str, Any]) -> str:
    """A proposal of any update mode in one line."""
    parts = [str(data.get("op") or data.get("type") or ("whole skill" if "new_skill" in data else "?"))]
    for key in ("path", "target", "content", "title", "instruction"):
        if data.get(key):
            parts.append(one_line(str(data[key]), 80))
    return " | ".join(parts)


SPENDING_HEADS = (
    "role",
    "stage",
    "calls",
    "tokens charged",
    "input",
    "of it cached",
    "output",
    "cost",
    "without a usage report",
)
UNKNOWN_IS_NOT_ZERO = (
    "Unknown is what no provider reported or no price list names; it is never counted as zero."
)


def spending_rows(groups: Mapping[tuple[Role, str], Total], whole: Total) -> list[tuple[str, ...]]:
    """The rows below `SPENDING_HEADS`, one a role and stage; the last one is the whole."""
    named = [*groups.items(), (("all", ""), whole)]
    return [
        (
            *names,
            amount(one.calls),
            amount(one.tokens),
            amount(one.input_tokens),
            amount(one.cached_tokens),
            amount(one.output_tokens),
            money(one.dollars),
            amount(one.unsettled),
        )
        for names, one in named
    ]


Tone = Literal["plain", "good", "warn", "bad"]
_TONES: dict[str, Tone] = {
    "accepted": "good",
    "rejected": "warn",
    "taken without a gate": "warn",
    "inconclusive": "bad",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a run's log for people: `head`, then a `word` that carries the tone, then `rest`."""

    time: str
    head: str
    word: str = ""
    rest: str = ""
    tone: Tone = "plain"

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.head}{self.word}{self.rest}"


def line_of(event: Event, steps: int) -> LogLine | None:
    """The line for a decision; None for what is no news. `steps` is how many are planned."""
    if isinstance(event, Notice):
        is_warning = event.level == "warning"
        head = f"{'warning' if is_warning else 'note'}: {event.text}"
        return LogLine(time=event.time, head=head, tone="warn" if is_warning else "plain")
    if isinstance(event, StageClosed):
        return _lost(event)
    head, action, rest = "", "", ""
    if isinstance(event, Checkpoint) and event.kind == "baseline":
        head = f"seed skill: {score(event.state.baseline_score)} on val"
        if event.state.skill != event.state.seed:
            head += f"; the skill to start from: {score(event.state.score)}"
    elif isinstance(event, Checkpoint) and isinstance(event.record, StepRecord):
        head, action = f"step {event.record.step}/{steps}: ", event.record.action
        rest = f", {event.record.why} ({count(event.record.edit_apply_summary.applied, 'edit')})"
    elif isinstance(event, Checkpoint) and isinstance(event.record, ReopenedRecord):
        head = f"step {event.record.from_step} and what followed it are open again"
    elif isinstance(event, EpochEnded) and event.slow_update.why is not None:
        head, action = f"end of epoch {event.epoch}: slow update ", event.slow_update.action
        rest = f", {event.slow_update.why}"
    elif isinstance(event, HandedOver):
        edits = count(len(event.edits), "edit")
        head = f"step {event.place.step}/{steps} stays open; handed over: {event.why} ({edits})"
    elif isinstance(event, Pruned):
        out, learned = sum(line.removed for line in event.lines), count(len(event.lines), "learned line")
        head = f"pruned: {out} of {learned} left out, {score(event.score)} on val"
    elif isinstance(event, TestMeasured):
        opened = f"{event.folds} folds pooled" if event.folds else "sealed test opened"
        head = f"{opened} (look {event.look})"
    word = outcome(action)
    tone = _TONES.get(word, "plain")
    return LogLine(time=event.time, head=head, word=word, rest=rest, tone=tone) if head else None


def _lost(event: StageClosed) -> LogLine | None:
    lost = [row for row in event.rows if row.invalid]
    if not lost:
        return None
    kinds = ", ".join(sorted({row.invalid or "" for row in lost}))
    what = f"{len(lost)} of {len(event.rows)} rows could not be measured ({kinds})"
    return LogLine(time=event.time, head=f"{event.place} {event.stage}: {what}", tone="warn")
