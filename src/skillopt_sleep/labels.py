"""What a model says of kinds of requests: a title, whether they can be asked again, and how answers could be
measured. It may cut words out of a request and never add any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import BudgetSpent
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.process.waiting import together
from skillopt.redact import redact_transcript
from skillopt.runs.words import count
from skillopt.tasks.task import Split
from skillopt_sleep.measures import demands
from skillopt_sleep.readings import ask, messages_of, one_line, tagged
from skillopt_sleep.requests import PastRequest
from skillopt_sleep.tasks import NightTask
from skillopt_sleep.wording import normal, opening

SplitOf = Callable[[str], Split]
"""The split of a request by its form."""
_MOST_ASKED = 24
"""Kinds that a model is asked about at most, those from most sessions first."""
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


async def label_kinds(
    groups: Sequence[list[PastRequest]], model: Model | None, split: SplitOf, remembered: Sequence[NightTask]
) -> tuple[list[Label | None], list[str]]:
    """What a model says of each kind, None where it was not asked or not understood; and that in words."""
    if model is None:
        return [None] * len(groups), []
    labels = [None if train_requests(group, split) else earlier_label(group, remembered) for group in groups]
    # What needs the repository every time cannot be replayed, and what nobody reacted to cannot be measured:
    # neither is worth a call.
    worth = [
        place
        for place, group in enumerate(groups)
        if not all(one.needs for one in group)
        and any(one.accepted or one.rejected for one in group)
        and train_requests(group, split)
    ]
    worth.sort(key=lambda place: (-len(session_names(groups[place])), place))
    lost: Counter[str] = Counter()

    async def ask_about(place: int) -> None:
        try:
            labels[place] = await label(model, title_of(groups[place]), train_requests(groups[place], split))
        except BudgetSpent:
            lost["tonight's allowance for mining was spent before they were asked about"] += 1
        else:
            if labels[place] is None:
                lost["the model's replies about them could not be used"] += 1

    await together(*(ask_about(place) for place in worth[:_MOST_ASKED]))
    if len(worth) > _MOST_ASKED:
        lost[f"a model is asked about {_MOST_ASKED} kinds at most"] += len(worth) - _MOST_ASKED
    return labels, [
        f"{count(number, 'kind')} of {len(worth)} mined by your own words alone: {why}."
        for why, number in sorted(lost.items())
    ]


def train_requests(group: Sequence[PastRequest], split: SplitOf) -> list[PastRequest]:
    """The requests of a kind that are learned from."""
    return [one for one in group if split(one.form) == "train"]


def session_names(group: Iterable[PastRequest]) -> tuple[str, ...]:
    """The sessions that requests are from, each once."""
    return tuple(dict.fromkeys(one.session.name for one in group))


def title_of(group: Sequence[PastRequest]) -> str:
    """What the requests of a kind begin with; never more, as a title must not tell a held-out one."""
    begins = Counter(opening(one.form) or one.form.split()[0] for one in group)
    return max(sorted(begins), key=lambda words: begins[words])


async def label(model: Model, title: str, examples: Sequence[PastRequest]) -> Label | None:
    """A model's view of a kind, by train examples; None where its reply cannot be used twice."""
    reply = await ask(
        model, label_messages(examples), Label, stage="mine", max_tokens=_CAP, about=f"about {title!r}"
    )
    if reply is None:
        return None
    # A model may repeat what it read; what it wrote passes the same redaction.
    return reply.model_copy(
        update={
            "title": one_line(redact_transcript(reply.title), 100),
            "needs": one_line(redact_transcript(reply.needs), 200) or "a model judged so",
            "checks": [_redacted(check) for check in reply.checks],
            "rubric": redact_transcript(reply.rubric).strip(),
        }
    )


def earlier_label(group: Sequence[PastRequest], remembered: Sequence[NightTask]) -> Label | None:
    """What a model said of this kind in an earlier night, for one of which tonight's requests are all held
    out; None where none of it is remembered. It is tried on tonight's answers like any other.
    """
    begins = {opening(one.form) for one in group} - {""}
    same = (task for task in remembered if task.rubric and opening(normal(task.prompt)) in begins)
    earlier = (Label(title=task.kind, self_contained=True, rubric=task.rubric) for task in same)
    return next(earlier, None)


def label_messages(examples: Sequence[PastRequest]) -> tuple[Message, ...]:
    """What a model is asked about a kind; everything inside the tags is data."""
    parts: list[str] = []
    for number, request in enumerate(_shown(examples), start=1):
        parts.append(tagged("request", request.turn.text, 1_500, f' number="{number}"'))
        parts += [tagged("rejected", text, 1_500) for text in request.rejected[:1]]
        parts += [tagged("said", one.text, 500) for one in request.corrections[:4]]
        parts += [tagged("accepted", text, 1_500) for text in request.accepted[-1:]]
    return messages_of("mine", parts)


def clean_requests(label: Label, examples: Sequence[PastRequest]) -> dict[str, str]:
    """Requests that the model cleaned by leaving words out, by their normal form."""
    shown = dict(enumerate(_shown(examples), start=1))
    found: dict[str, str] = {}
    for item in label.requests:
        fields = item if isinstance(item, Mapping) else {}
        number, clean = fields.get("number"), str(fields.get("intent", "")).strip()
        request = shown.get(number) if isinstance(number, int) else None
        if (
            request is not None
            and clean != request.turn.text
            and only_removes_words(clean, request.turn.text)
        ):
            found[request.form] = clean
    return found


def only_removes_words(clean: str, request: str) -> bool:
    """Whether a text is a request with words left out and nothing else: none added, moved or changed, and
    none lost that turns its sense.

    So neither a model's fancy nor an instruction hidden in a transcript can become something that was never
    asked.
    """
    asked, kept = _WORD.findall(request.casefold()), _WORD.findall(clean.casefold())
    if (
        len(clean) < _SHORTEST
        or 2 * len(kept) < len(asked)
        or not set(clean.casefold()) <= {*request.casefold(), *_MARKS}
    ):
        return False
    left = iter(asked)
    in_order = all(word in left for word in kept)
    means = [Counter(word for word in words if _MEANS.search(word)) for words in (asked, kept)]
    return in_order and means[0] == means[1] and demands(clean) == demands(request)


def _shown(examples: Sequence[PastRequest]) -> list[PastRequest]:
    return sorted(examples, key=lambda one: (not one.corrections, not one.accepted, one.form))[:SAMPLES]


def _redacted(check: Any) -> Any:
    arg = check.get("arg") if isinstance(check, Mapping) else None
    return {**check, "arg": redact_transcript(arg)} if isinstance(arg, str) else check
