"""Questions to the optimizer: packaged prompts, a person's texts as data, replies read strictly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel

from skillopt.errors import Fault, ProviderDown
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.models.reading import Unusable, read, tries

R = TypeVar("R", bound=BaseModel)
_TAGS = re.compile(
    r"<(?=/?(?:request|accepted|rejected|said|session|person|assistant|lines)\b)", re.IGNORECASE
)


def prompt_text(name: str) -> str:
    """A packaged prompt by its name."""
    return files("skillopt_sleep").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def messages_of(prompt: str, parts: Sequence[str]) -> tuple[Message, ...]:
    """A packaged prompt, and the parts of the question below it."""
    user = "\n\n".join(parts)
    return Message(role="system", content=prompt_text(prompt)), Message(role="user", content=user)


def tagged(tag: str, text: str, most: int, attributes: str = "") -> str:
    """A text inside a tag, cut after `most` characters; nothing in it can open or close one of our tags."""
    cut = text if len(text) <= most else f"{text[:most]}\n[cut]"
    return f"<{tag}{attributes}>\n{_TAGS.sub('&lt;', cut)}\n</{tag}>"


def one_line(text: str, most: int) -> str:
    """The beginning of what a model said, on one line."""
    return " ".join(text.split())[:most]


async def ask(
    model: Model, messages: tuple[Message, ...], shape: type[R], *, stage: str, max_tokens: int, about: str
) -> R | None:
    """The optimizer's reply, None where it cannot be used twice. Raises `ProviderDown` for an outage."""
    for request in tries(messages, shape, role="optimizer", stage=stage, max_tokens=max_tokens):
        try:
            return read(await model.complete(request), shape)
        except Unusable:
            continue
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked {about}: {fault}. Nothing is lost: run the same command"
                " again."
            ) from fault
    return None
