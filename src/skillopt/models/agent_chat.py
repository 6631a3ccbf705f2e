"""Chat through an agent CLI: one process a question, without tools, skills or settings of the user's."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.agents import driver
from skillopt.errors import ConfigError, Fault, ModelError
from skillopt.messages import Image, Message, Reply, Request
from skillopt.models.port import ModelSpec
from skillopt.programs.port import OWN, Access, Ask
from skillopt.programs.run import InstalledAgent
from skillopt.redact.printable import clean_text

_WIRES = {"claude_code": "anthropic", "codex": "openai", "copilot": "openai"}
"""What a CLI speaks to an endpoint that is not its own service."""
_NOT_SAID = ("path", "home", "activation")
"""Settings that change nothing about an answer."""


class AgentChat:
    """The model behind an agent CLI. Without a key the CLI uses its own login and nothing else of home."""

    def __init__(self, spec: ModelSpec, name: str) -> None:
        refused = [knob for knob in ("temperature", "top_p", "seed") if getattr(spec, knob) is not None]
        if refused:
            raise ConfigError(
                f"{spec.provider}:{spec.name}: an agent CLI takes no {' or '.join(refused)}. Unset it."
            )
        access = Access(
            provider=OWN if spec.base_url is None else _WIRES[name],
            model=spec.name,
            base_url=spec.base_url,
            key=spec.api_key,
            effort=spec.reasoning_effort,
        )
        self._spec = spec
        self._agent = InstalledAgent(driver(name), access, spec.options, timeout=spec.timeout)
        self.endpoint = spec.base_url or f"the {self._agent.driver.binary} CLI"
        said = sorted(set(spec.options) - set(_NOT_SAID))
        self.fingerprint: Mapping[str, Any] = {**spec.fingerprint(said), "cli": self._agent.cli.version}

    async def complete(self, request: Request) -> Reply:
        """One attempt: one run of the CLI; see `Model`."""
        if request.tools:
            raise self._error(
                Fault(
                    "contract", f"{self._agent.driver.name}: a chat through an agent CLI has no tools of ours"
                )
            )
        system = "\n\n".join(
            message.content for message in request.messages if message.role == "system" and message.content
        )
        turns = [message for message in request.messages if message.role != "system"]
        images = [image for message in turns for image in message.images]
        try:
            with self._agent.place() as place:
                ask = Ask(
                    access=self._agent.access,
                    place=place,
                    settings=self._agent.settings,
                    system=system,
                    prompt=_conversation(turns),
                    max_tokens=request.max_tokens,
                    images=tuple(
                        write_image(image, place.workspace / f"image-{n}")
                        for n, image in enumerate(images, start=1)
                    ),
                    schema=request.schema if self._spec.structured_output == "schema" else None,
                )
                report = await self._agent.run(place, self._agent.driver.ask(ask), skill=None)
        except Fault as fault:
            raise self._error(fault) from fault
        return Reply(
            text=clean_text(report.answer), finish=report.finish, usage=report.usage, model=report.model
        )

    async def close(self) -> None:
        """Nothing stays open between two questions."""

    def _error(self, fault: Fault) -> ModelError:
        # What could not be started, or was refused at the door, was not worked on.
        return ModelError(fault.kind, fault.detail, refused=fault.kind in ("spawn", "auth", "contract"))


def write_image(image: Image, stem: Path) -> Path:
    """The image as a file with the ending of its media type."""
    path = stem.with_suffix("." + image.media_type.rpartition("/")[2].replace("jpeg", "jpg").split("+")[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(image.data))
    return path


def _conversation(turns: list[Message]) -> str:
    """A single question as it is; of several turns, the earlier ones as JSON and then the last one."""
    if len(turns) == 1:
        return turns[0].content
    told = [{"role": turn.role, "content": turn.content} for turn in turns[:-1]]
    return (
        f"The conversation so far, as JSON:\n{json.dumps(told, ensure_ascii=False, indent=1)}\n\nAnswer"
        f" this:\n{turns[-1].content}"
    )
