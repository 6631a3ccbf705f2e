"""Answers by hand, without a key: questions become files, anybody answers, the same command goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from skillopt.config.service import WRITES, Options
from skillopt.errors import AnswersWanted, ConfigError
from skillopt.files import expand_home
from skillopt.messages import Reply, Request
from skillopt.models.port import UNBOUNDED, Model, ModelSpec, Provider

FOLDER = "handoff"


class Handoff:
    """A model that is asked through a folder. `handoff:NAME` names who answers, so none are mixed up."""

    concurrency = UNBOUNDED
    """A round holds everything that can be asked, whatever the number of workers."""

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        from skillopt.models.handoff.folder import QuestionFolder  # a declaration is light

        self.questions = QuestionFolder(folder)
        self.endpoint = f"handoff:{folder}"
        self.fingerprint: Mapping[str, Any] = {"provider": "handoff", "model": spec.name}

    async def complete(self, request: Request) -> Reply:
        """The answer in the folder; without one the question is put there and `AnswersWanted` raised."""
        found = self.questions.look(request)
        if isinstance(found, Reply):
            return found
        self.questions.publish([request])
        raise AnswersWanted(
            "A question waits for an answer:"
            f" {', '.join(self.questions.open_rounds([request]))}.{f' {found}.' if found else ''} Write the"
            " answer beside it, then run the same command again."
        )

    async def close(self) -> None:
        """Nothing is open."""


class HandoffOptions(Options):
    """Options of answers by hand."""

    folder: Path | None = Field(
        default=None,
        strict=False,
        description="Where questions wait for their answers.",
        json_schema_extra=WRITES,
    )


def build(spec: ModelSpec) -> Model:
    """A model that is asked through files in the option `folder`, or in `handoff/` of this directory."""
    if spec.sampling():
        raise ConfigError(
            f"handoff has no {', '.join(spec.sampling())}: whoever answers cannot be told. Leave it unset for"
            " this role."
        )
    if spec.base_url is not None or spec.api_key is not None:
        raise ConfigError("handoff has no address and needs no key. Leave both unset for this role.")
    folder = spec.options.get("folder")
    return Handoff(spec, expand_home(folder or FOLDER).absolute())


PLUGIN = Provider(
    open=build,
    fixes_cap=lambda spec: True,  # its page says how long an answer may be
    takes_common_effort=False,
    Options=HandoffOptions,
    routing=frozenset({"folder"}),
    needs_name=False,
)
