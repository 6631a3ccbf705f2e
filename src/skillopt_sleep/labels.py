"""Asks a model about a kind of request; its reply is data that is tested before it counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.redact import redact_transcript
from skillopt_sleep._ask import ask, messages_of, one_line, tagged
from skillopt_sleep.demands import demands
from skillopt_sleep.kinds import normal, opening
from skillopt_sleep.requests import PastRequest
from skillopt_sleep.tasks import NightTask

SAMPLES = 4
"""Requests of a kind that a model is shown."""
_CAP = 2_048
_SHORTEST = 8
"""Characters below which a text is no request."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_MEANS = re.compile(
    r"\d|^(?:not?|nor|never|none|neither|without|unless|except|only|but|if|whether|instead|avoid|all|any|each|every|both)$|n['’]t$"
)
"""Words that a request cannot lose without asking for something else."""
_MARKS = frozenset(" .,:;?!\n")


class Label(BaseModel):
    """What a model says about a kind. Its lists are read one by one later; a bad entry costs only itself."""

    model_config = ConfigDict(extra="ignore")

    title: str = Field(default="", max_length=200)
    self_contained: bool
    needs: str = Field(default="", max_length=400)
    requests: list[Any] = Field(default_factory=list, max_length=50)
    checks: list[Any] = Field(default_factory=list, max_length=50)
    rubric: str = Field(default="", max_length=4_000)


async def label(model: Model, title: str, examples: Sequence[PastRequest]) -> Label | None:
    """A model's view of a kind, by train examples; None where its reply cannot be used twice."""
    said = await ask(
        model, label_messages(examples), Label, stage="mine", max_tokens=_CAP, about=f"about {title!r}"
    )
    if said is None:
        return None
    # A model may repeat what it read; what it wrote passes the same redaction.
    return said.model_copy(
        update={
            "title": one_line(redact_transcript(said.title), 100),
            "needs": one_line(redact_transcript(said.needs), 200) or "a model judged so",
            "checks": [_redacted(check) for check in said.checks],
            "rubric": redact_transcript(said.rubric).strip(),
        }
    )


def earlier_label(group: Sequence[PastRequest], remembered: Sequence[NightTask]) -> Label | None:
    """What a model said of this kind in an earlier night, for one of which tonight's requests are all held
    out; None where none of it is remembered. It is tried on tonight's answers like any other.
    """
    begins = {opening(one.form) for one in group} - {""}
    same = (task for task in remembered if task.rubric and opening(normal(task.prompt)) in begins)
    told = (Label(title=task.kind, self_contained=True, rubric=task.rubric) for task in same)
    return next(told, None)


def label_messages(examples: Sequence[PastRequest]) -> tuple[Message, ...]:
    """What a model is asked about a kind; everything inside the tags is data."""
    parts: list[str] = []
    for number, request in enumerate(_shown(examples), start=1):
        parts.append(tagged("request", request.turn.text, 1_500, f' number="{number}"'))
        parts += [tagged("rejected", text, 1_500) for text in request.rejected[:1]]
        parts += [tagged("said", one.said, 500) for one in request.corrections[:4]]
        parts += [tagged("accepted", text, 1_500) for text in request.accepted[-1:]]
    return messages_of("mine", parts)


def clean_requests(told: Label, examples: Sequence[PastRequest]) -> dict[str, str]:
    """Requests that the model cleaned by leaving words out, by their normal form."""
    shown = dict(enumerate(_shown(examples), start=1))
    found: dict[str, str] = {}
    for item in told.requests:
        said = item if isinstance(item, Mapping) else {}
        number, clean = said.get("number"), str(said.get("intent", "")).strip()
        request = shown.get(number) if isinstance(number, int) else None
        if request is not None and clean != request.turn.text and says_no_more(clean, request.turn.text):
            found[request.form] = clean
    return found


def says_no_more(clean: str, request: str) -> bool:
    """Whether a text is a request with words left out and nothing else: none added, moved or changed, and
    none lost that turns its sense.

    So neither a model's fancy nor an instruction hidden in a transcript can become something that was never
    asked.
    """
    said, kept = _WORD.findall(request.casefold()), _WORD.findall(clean.casefold())
    if (
        len(clean) < _SHORTEST
        or 2 * len(kept) < len(said)
        or not set(clean.casefold()) <= {*request.casefold(), *_MARKS}
    ):
        return False
    left = iter(said)
    in_order = all(word in left for word in kept)
    means = [Counter(word for word in words if _MEANS.search(word)) for words in (said, kept)]
    return in_order and means[0] == means[1] and demands(clean) == demands(request)


def _shown(examples: Sequence[PastRequest]) -> list[PastRequest]:
    return sorted(examples, key=lambda one: (not one.corrections, not one.accepted, one.form))[:SAMPLES]


def _redacted(check: Any) -> Any:
    arg = check.get("arg") if isinstance(check, Mapping) else None
    return {**check, "arg": redact_transcript(arg)} if isinstance(arg, str) else check
