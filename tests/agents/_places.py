"""Places and orders for drivers, with names that are the same on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillopt.process import Finished
from skillopt.programs.port import OWN, Access, AgentPlace, AgentWork, Ask

STREAMS = Path(__file__).parent / "streams"
KEY = "sk-test-5f2c-not-for-argv"
PROMPT = "Where is it? PROMPT-NOT-FOR-ARGV"
PLACE = AgentPlace(root=Path("/r"), home=Path("/r/home"), workspace=Path("/r/workspace"), temp=Path("/r/tmp"))


def access(
    provider: str = OWN, *, key: str | None = KEY, base_url: str | None = None, model: str = "m1"
) -> Access:
    return Access(provider=provider, model=model, key=key, base_url=base_url)


def ask(given: Access, **more: Any) -> Ask:
    return Ask(
        **{
            "access": given,
            "place": PLACE,
            "settings": {},
            "system": "Be terse.",
            "prompt": PROMPT,
            "max_tokens": 77,
            **more,
        }
    )


def work(given: Access, **more: Any) -> AgentWork:
    return AgentWork(
        **{"access": given, "place": PLACE, "settings": {}, "prompt": PROMPT, "skill": "house-style", **more}
    )


def printed(name: str, code: int = 0) -> Finished:
    """A recorded stream as a finished process."""
    return Finished(code=code, stdout=(STREAMS / f"{name}.jsonl").read_bytes(), stderr=b"")


def said(stdout: str = "", *, stderr: str = "", code: int = 0) -> Finished:
    return Finished(code=code, stdout=stdout.encode(), stderr=stderr.encode())
