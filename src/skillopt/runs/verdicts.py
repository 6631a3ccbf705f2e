"""Finds a verdict in a run's log by the name that a person gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.errors import UsageError
from skillopt.events import Judged
from skillopt.events.state import State
from skillopt.place import Place
from skillopt.runs.fold import LogSection
from skillopt.runs.log import EVENTS, read_sections
from skillopt.runs.reader import RunReader

VERDICT = re.compile(r"(?P<step>\d+)(?:/c(?P<candidate>\d+))?|epoch-(?P<epoch>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVerdict:
    """A verdict, and the log up to the end of the section it stands in."""

    judged: Judged
    sections: Sequence[LogSection]

    @property
    def section(self) -> LogSection:
        """What was decided together with it."""
        return self.sections[-1]

    @property
    def before(self) -> State:
        """The state that it was decided in."""
        assert self.section.before is not None, "a verdict comes after the baseline"
        return self.section.before


def find(run: RunReader, step: str) -> FoundVerdict:
    """The verdict on a step (its number) or on an epoch's slow update (`epoch-N`).

    Of several candidates the number means the accepted one, else the first; `N/c0`, `N/c1` name each.
    """
    fold = read_sections(run.folder)
    sections = [*fold.kept, fold.open_section]
    at, judged = _find(sections, step, run)
    if not run.config:
        raise UsageError(
            f"{run.folder / 'settings.json'} is missing; it says how scores were weighed. Run the same"
            " training command again to write it."
        )
    return FoundVerdict(judged=judged, sections=sections[: at + 1])


def latest(run: RunReader) -> str:
    """The last step of a run that is closed, as `find` takes it."""
    return str(max((record.step for record in run.fold.records), default=1))


def name_of(place: Place, *, with_candidate: bool) -> str:
    """A verdict by its place, in words a person can give back to `explain`."""
    if place.scope == "end":
        return f"epoch-{place.epoch}"
    return f"step {place.step}" + (f"/c{place.candidate}" if with_candidate else "")


def _find(sections: Sequence[LogSection], step: str, run: RunReader) -> tuple[int, Judged]:
    """The verdict of that name, and the section it stands in."""
    named = VERDICT.fullmatch(step)
    if named is None:
        raise UsageError(
            f"{step!r} names no verdict: give a step's number or 'epoch-N' (with several candidates: 'N/c0',"
            " 'N/c1', ...)."
        )
    others: list[str] = []
    for at, section in enumerate(sections):
        verdicts = [one for one in section.of(Judged) if _is_of(one.place, named["step"], named["epoch"])]
        found = [one for one in verdicts if one.place.candidate == int(named["candidate"] or 0)]
        if not named["candidate"]:
            found = [one for one in verdicts if one.action == "accept"][-1:] or found
        if found:
            return at, found[0]
        others += [f"{step.partition('/')[0]}/c{one.place.candidate}" for one in verdicts]
    had = sorted(record.step for record in run.fold.records)
    steps = f"it has closed steps {had[0]} to {had[-1]}" if had else "it has closed no step"
    if parts := sorted(one.parent for one in run.folder.glob(f"rounds/*/{EVENTS}")):
        steps += f"; its rounds are runs too, such as {parts[0]}"
    there = f"that step has {', '.join(others)}" if others else steps
    raise UsageError(f"{run.folder} holds no verdict on {step!r}; {there}.")


def _is_of(place: Place, step: str | None, epoch: str | None) -> bool:
    if step:
        return (place.scope, place.step) == ("step", int(step))
    return (place.scope, place.epoch) == ("end", int(epoch or 0))
