"""Decides how answers to a mined task are measured: checks or a rubric, each tried on answers whose worth is known before it counts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import Fault, ProviderDown, ScoringError
from skillopt.messages import Message, Request
from skillopt.models._model import Model
from skillopt.optimizer._replies import Unusable, read
from skillopt.redact import redact_transcript
from skillopt.sleep._demands import demands
from skillopt.sleep._episodes import Episode
from skillopt.sleep.checks import MOST_CHECKS, SHAPE_OPS, Check, read_checks, telling
from skillopt.sleep.scoring import PASS, judge, prompt_text

NO_ANSWERS = ("", "I'm sorry, I can't help with that.", "Sure! I will do that right away.")
"""Answers that no check of worth may be content with."""
_CAP = 2_048
_SAMPLES = 4
_TRIED = 6
"""Answers of each sort that a check is tried on, the newest."""
_OURS = re.compile(r"<(?=/?(?:request|accepted|rejected|said)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Checks or a rubric that were seen to tell; false where there is neither."""

    checks: tuple[Check, ...] = ()
    rubric: str = ""

    def __bool__(self) -> bool:
        return bool(self.checks or self.rubric)


class Label(BaseModel):
    """What a model says about a kind of request. `checks` are read one by one afterwards; a bad one is no reason to lose the rest."""

    model_config = ConfigDict(extra="ignore")

    title: str = Field(default="", max_length=200)
    self_contained: bool
    needs: str = Field(default="", max_length=400)
    checks: list[Any] = Field(default_factory=list, max_length=50)
    rubric: str = Field(default="", max_length=4_000)


async def label(model: Model, title: str, examples: Sequence[Episode]) -> Label | None:
    """A model's view of a kind, by examples that are not held out; None where there are none or its reply cannot be used twice."""
    if not examples:
        return None
    asked = label_messages(examples)
    place = "mine/" + hashlib.sha256("\0".join(message.content for message in asked).encode("utf-8", "replace")).hexdigest()[:24]
    for attempt in (0, 1):
        request = Request(
            messages=asked,
            max_tokens=_CAP,
            role="optimizer",
            stage="mine",
            place=f"{place}/a{attempt}",
            schema=Label.model_json_schema(),
        )
        try:
            said = read(await model.complete(request), Label)
        except Unusable:
            continue
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked about {title!r}: {fault}. Nothing is lost: run the same command again."
            ) from fault
        # A model may repeat what it read; what it wrote passes the same redaction.
        return said.model_copy(
            update={
                "title": _line(redact_transcript(said.title), 100),
                "needs": _line(redact_transcript(said.needs), 200) or "a model judged so",
                "rubric": redact_transcript(said.rubric).strip(),
            }
        )
    return None


def label_messages(examples: Sequence[Episode]) -> tuple[Message, ...]:
    """What a model is asked about a kind; everything inside the tags is data."""
    parts: list[str] = []
    for episode in sorted(examples, key=lambda episode: (not episode.corrections, not episode.accepted, episode.form))[:_SAMPLES]:
        parts.append(f"<request>\n{_data(episode.request.text, 1_500)}\n</request>")
        parts += [f"<rejected>\n{_data(text, 1_500)}\n</rejected>" for text in episode.rejected[:1]]
        parts += [f"<said>\n{_data(text, 500)}\n</said>" for text in episode.corrections[:4]]
        parts += [f"<accepted>\n{_data(text, 1_500)}\n</accepted>" for text in episode.accepted[-1:]]
    return Message(role="system", content=prompt_text("mine")), Message(role="user", content="\n\n".join(parts))


async def measure_kind(kind: Sequence[Episode], told: Label | None, model: Model | None) -> Measure:
    """What holds for every request of a kind: demands made in corrections first, else what a model proposed; only what was seen to tell."""
    good = [text for episode in kind for text in episode.accepted][-_TRIED:]
    bad = [text for episode in kind for text in episode.rejected][-_TRIED:]
    demanded = [check for episode in kind for text in episode.corrections for check in demands(text) if check.op != "contains"]
    if bad and (checks := await telling(_new(demanded)[:MOST_CHECKS], _after_correction(kind), [*bad, *NO_ANSWERS])):
        return Measure(checks=checks)
    if told is None or not (good or bad):
        return Measure()
    if good:
        proposed = await telling(read_checks(told.checks)[0], good, [*bad, *NO_ANSWERS])
        # Form alone can be met without getting anything right; a rubric then says what is meant.
        if not all(check.op in SHAPE_OPS for check in proposed):
            return Measure(checks=proposed)
    if model is not None and told.rubric and await _rubric_tells(model, told.rubric, kind):
        return Measure(rubric=told.rubric)
    return Measure()


async def measure(same: Sequence[Episode], of_kind: Measure) -> Measure:
    """How one task is measured, given how its kind is. `same` are the times this very request came.

    A demand in the request, or a word that an answer to it lacked, is a demand on this task alone.
    """
    asked = [check for episode in same for check in demands(episode.request.text)]
    lacked = [check for episode in same for text in episode.corrections for check in demands(text) if check.op == "contains"]
    good = [text for episode in same for text in episode.accepted][-_TRIED:]
    bad = [text for episode in same for text in episode.rejected][-_TRIED:]
    own = await telling(_new([*asked, *lacked]), good, [*bad, *NO_ANSWERS]) if good or bad else ()
    checks = _new([*of_kind.checks, *own])
    return Measure(checks=checks) if checks else of_kind


def _after_correction(kind: Sequence[Episode]) -> list[str]:
    """Accepted answers from the first correction on: what was fine before the person changed their mind proves nothing."""
    first = next((place for place, episode in enumerate(kind) if episode.corrections), len(kind))
    return [text for episode in kind[first:] for text in episode.accepted][-_TRIED:]


async def _rubric_tells(model: Model, rubric: str, kind: Sequence[Episode]) -> bool:
    """Whether a judge passes accepted answers by this rubric and fails rejected ones and an empty promise."""
    good = [(episode.request.text, text) for episode in kind for text in episode.accepted][-2:]
    bad = [(episode.request.text, text) for episode in kind for text in episode.rejected][-2:]
    try:
        for prompt, answer in good:
            if (await judge(model, prompt=prompt, rubric=rubric, answer=answer)).score < PASS:
                return False
        for prompt, answer in [*bad, (kind[-1].request.text, NO_ANSWERS[-1])]:
            if (await judge(model, prompt=prompt, rubric=rubric, answer=answer)).score >= PASS:
                return False
    except ScoringError as error:
        if error.kind != "judge":
            raise ProviderDown(f"The judge could not be asked: {error.detail}. Nothing is lost: run the same command again.") from error
        return False
    return True


def _new(checks: Sequence[Check]) -> tuple[Check, ...]:
    return tuple(dict.fromkeys(checks))


def _line(text: str, most: int) -> str:
    return " ".join(text.split())[:most]


def _data(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[:most]}\n[cut]"
    return _OURS.sub("&lt;", cut)
