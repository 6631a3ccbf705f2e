"""Asks a model about a kind of request, and decides what of its reply may be believed: nothing but data that
is read, cut and tested.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import Fault, ProviderDown
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.models.reading import Unusable, read, tries
from skillopt.night._demands import demands
from skillopt.night._episodes import Episode
from skillopt.redact import redact_transcript

SAMPLES = 4
"""Requests of a kind that a model is shown."""
_CAP = 2_048
_SHORTEST = 8
"""Characters below which a text is no request."""
_OURS = re.compile(r"<(?=/?(?:request|accepted|rejected|said)\b)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_MEANS = re.compile(
    r"\d|^(?:not?|nor|never|none|neither|without|unless|except|only|but|if|whether|instead|avoid|all|any|each|every|both)$|n['’]t$"
)
"""Words that a request cannot lose without asking for something else."""
_MARKS = frozenset(" .,:;?!\n")


class Label(BaseModel):
    """What a model says about a kind of request. Its lists are read one by one afterwards; a bad entry is no
    reason to lose the rest.
    """

    model_config = ConfigDict(extra="ignore")

    title: str = Field(default="", max_length=200)
    self_contained: bool
    needs: str = Field(default="", max_length=400)
    requests: list[Any] = Field(default_factory=list, max_length=50)
    checks: list[Any] = Field(default_factory=list, max_length=50)
    rubric: str = Field(default="", max_length=4_000)


async def label(model: Model, title: str, examples: Sequence[Episode]) -> Label | None:
    """A model's view of a kind, by examples that are not held out; None where its reply cannot
    be used twice.
    """
    for request in tries(label_messages(examples), Label, role="optimizer", stage="mine", max_tokens=_CAP):
        try:
            said = read(await model.complete(request), Label)
        except Unusable:
            continue
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked about {title!r}: {fault}. Nothing is lost: run the same"
                " command again."
            ) from fault
        # A model may repeat what it read; what it wrote passes the same redaction.
        return said.model_copy(
            update={
                "title": _line(redact_transcript(said.title), 100),
                "needs": _line(redact_transcript(said.needs), 200) or "a model judged so",
                "checks": [_redacted(check) for check in said.checks],
                "rubric": redact_transcript(said.rubric).strip(),
            }
        )
    return None


def label_messages(examples: Sequence[Episode]) -> tuple[Message, ...]:
    """What a model is asked about a kind; everything inside the tags is data."""
    parts: list[str] = []
    for number, episode in enumerate(_shown(examples), start=1):
        parts.append(f'<request number="{number}">\n{_data(episode.request.text, 1_500)}\n</request>')
        parts += [f"<rejected>\n{_data(text, 1_500)}\n</rejected>" for text in episode.rejected[:1]]
        parts += [f"<said>\n{_data(text, 500)}\n</said>" for text in episode.corrections[:4]]
        parts += [f"<accepted>\n{_data(text, 1_500)}\n</accepted>" for text in episode.accepted[-1:]]
    return Message(role="system", content=_prompt()), Message(role="user", content="\n\n".join(parts))


def clean_requests(told: Label, examples: Sequence[Episode]) -> dict[str, str]:
    """Requests that the model wrote without what does not belong to them, by their normal form; only where it
    left words out.
    """
    shown = _shown(examples)
    found: dict[str, str] = {}
    for item in told.requests:
        number, intent = (
            (item.get("number"), item.get("intent")) if isinstance(item, Mapping) else (None, None)
        )
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 1 <= number <= len(shown)
            or not isinstance(intent, str)
        ):
            continue
        episode = shown[number - 1]
        clean = intent.strip()
        if clean != episode.request.text and says_no_more(clean, episode.request.text):
            found[episode.form] = clean
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


def _shown(examples: Sequence[Episode]) -> list[Episode]:
    return sorted(
        examples, key=lambda episode: (not episode.corrections, not episode.accepted, episode.form)
    )[:SAMPLES]


def _redacted(check: Any) -> Any:
    arg = check.get("arg") if isinstance(check, Mapping) else None
    return {**check, "arg": redact_transcript(arg)} if isinstance(arg, str) else check


def _line(text: str, most: int) -> str:
    return " ".join(text.split())[:most]


def _data(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[:most]}\n[cut]"
    return _OURS.sub("&lt;", cut)


def _prompt() -> str:
    return files("skillopt.night").joinpath("prompts").joinpath("mine.md").read_text(encoding="utf-8")
