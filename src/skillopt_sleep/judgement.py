"""What a night measured of a new text, where each of its edits comes from, and what finding them took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from pydantic import Field

from skillopt.changes import StoredRecord
from skillopt.evaluation.significance import Significance, significance

NOT_MEASURED = "not measured"


class EditEvidence(StoredRecord):
    """Where an edit comes from: as it was proposed, its step, and the tasks and sessions behind it, those
    first in which something stands that is quoted.
    """

    text: str = ""
    """The document after the edit (of a memory file what nights learned), until it is part of a proposal."""
    edit: dict[str, Any] = Field(default_factory=dict)
    place: str = ""
    why: str = ""
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()
    """The person's own words in them."""
    measured: bool = True
    """False for a suggestion: nobody tried what it does."""

    @property
    def reason(self) -> str:
        """Why it was proposed, as far as anybody said."""
        return self.why or str(self.edit.get("rationale", "") or self.edit.get("reason", ""))


class TaskScores(StoredRecord):
    """One held-out task with the old text and with the new one; None for what was not measured."""

    task: str
    title: str = ""
    before: float | None
    after: float | None
    telling: bool = True
    """False where an answer that nobody worked for could pass: it counts for no finding."""

    @property
    def gain(self) -> float | None:
        """How much better the new text is; None where one of the two was not measured."""
        return None if self.before is None or self.after is None else self.after - self.before


def mean_gain(pairs: Sequence[TaskScores]) -> float | None:
    """How much better the new text is on the tasks that tell; None where none was measured."""
    gains = [pair.gain for pair in pairs if pair.telling and pair.gain is not None]
    return fmean(gains) if gains else None


class AnswerPair(StoredRecord):
    """A held-out request with the answer that the old text led to and the one the new text did."""

    request: str
    before: str
    after: str

    def parts(self) -> tuple[tuple[str, str], ...]:
        """The request, the answer before and the answer after, each as a pair of heading and text."""
        return ("You asked", self.request), ("Answer before", self.before), ("Answer after", self.after)


class Judgement(StoredRecord):
    """What the gate said of a target's new text, and what its held-out rows show: `finding` says it wherever
    a person decides.
    """

    action: str
    verified: bool
    """Whether the rows show that the new text is better: chance alone would seldom do as well."""
    why: str
    before: float | None = None
    after: float | None = None
    metric: str = ""
    policy: str = ""
    gate_on: bool = True
    example: AnswerPair | None = None
    pairs: tuple[TaskScores, ...] = ()
    p: float | None = None
    """How often chance alone would do as well in as many tries; None where none was tested."""
    tried: int = 1
    """Measurements until this one was found: texts of this night and those before it, and nights that
    measured it again.
    """

    @property
    def significance(self) -> Significance:
        """What the held-out rows prove."""
        return significance(mean_gain(self.pairs), self.p)

    @property
    def finding(self) -> str:
        """What the held-out rows show, in words."""
        if all(pair.gain is None for pair in self.pairs):
            return f"{self.significance}: {NOT_MEASURED}"
        if not any(pair.telling for pair in self.pairs):
            return f"{self.significance}: all held-out tasks see form alone, which shows nothing"
        gains = [pair.gain for pair in self.pairs if pair.telling and pair.gain is not None]
        worse = sum(gain < 0 for gain in gains)
        counted = f"better on {sum(gain > 0 for gain in gains)} of {len(gains)} held-out tasks"
        counted += f", worse on {worse}" if worse else ""
        finding = f"{self.significance}: {counted}"
        among = f", {self.tried} tries" if self.tried > 1 else ""
        finding += f" (p = {self.p:.2g}{among})" if self.p is not None else " (not tested)"
        formal = sum(not pair.telling for pair in self.pairs)
        return finding + (f"; those measured by form alone, {formal}, count for nothing" if formal else "")


class Cost(StoredRecord):
    """What the night took; None is unknown and never 0."""

    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None

    def __str__(self) -> str:
        known = (
            f"{self.calls} calls" if self.calls is not None else "",
            f"{self.tokens:,} tokens" if self.tokens is not None else "tokens unknown" if self.calls else "",
            f"${self.dollars:.4f}" if self.dollars is not None else "dollars unknown",
            f"{self.minutes:.1f} min" if self.minutes is not None else "",
        )
        return ", ".join(filter(None, known))


def total_cost(costs: Iterable[Cost]) -> Cost:
    """The sum; one unknown part makes its sum unknown."""
    every = list(costs)

    def added(values: list[Any]) -> Any:
        return None if any(value is None for value in values) else sum(values)

    return Cost(**{name: added([getattr(cost, name) for cost in every]) for name in Cost.model_fields})
