"""Anthropic's Message Batches: rows and outcomes travel in the calls themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from skillopt.errors import ModelError
from skillopt.messages import Reply, Request
from skillopt.models.port import BatchProgress
from skillopt.models.wires.http import Wire, json_lines

_PATH = "/v1/messages/batches"
_LISTED = 100
"""Batches of one page of the list, which begins with the newest."""
# https://docs.claude.com/en/api/errors: outcomes of rows tell the type and leave out the status.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class ReadsMessages(Protocol):
    """The part of a model of this API that a batch needs."""

    def body(self, request: Request) -> dict[str, Any]: ...

    def read(self, answer: Mapping[str, Any]) -> Reply: ...


class AnthropicBatches:
    """`BatchApi` of the Anthropic API, https://docs.claude.com/en/api/creating-message-batches."""

    most_rows = 100_000

    def __init__(self, model: ReadsMessages, wire: Wire) -> None:
        self._model = model
        self._wire = wire

    def row(self, name: str, request: Request) -> Mapping[str, Any]:
        return {"custom_id": name, "params": self._model.body(request)}

    async def create(self, token: str, rows: Sequence[Mapping[str, Any]]) -> str:
        text = await self._wire.send("POST", _PATH, self._wire.encoded({"requests": list(rows)}))
        found = self._wire.json_object(text).get("id")
        if not isinstance(found, str):
            raise self._wire.malformed("it has no id")
        return found

    async def look(self, batch: str) -> BatchProgress:
        found = self._wire.json_object(await self._wire.send("GET", f"{_PATH}/{batch}"))
        counts = {name: int(number or 0) for name, number in (found.get("request_counts") or {}).items()}
        return BatchProgress(
            is_over=found.get("processing_status") == "ended",
            done=sum(counts.values()) - counts.get("processing", 0),
        )

    async def results(self, batch: str) -> Mapping[str, Reply | ModelError]:
        lines = json_lines(await self._wire.send("GET", f"{_PATH}/{batch}/results"))
        return {str(line.get("custom_id")): self._outcome(line.get("result") or {}) for line in lines}

    async def sent_since(self, began: float, token: str, rows: int) -> Sequence[str]:
        # A batch carries no mark of ours: those of the right size are candidates, and their rows tell.
        candidates: list[str] = []
        after = ""
        while True:
            page = self._wire.json_object(
                await self._wire.send("GET", f"{_PATH}?limit={_LISTED}{after and f'&after_id={after}'}")
            )
            listed = page.get("data") or ()
            found = [one for one in listed if _seconds(str(one["created_at"])) >= began]
            candidates += [str(one["id"]) for one in found if sum(one["request_counts"].values()) == rows]
            if not found or not page.get("has_more"):
                return candidates
            after = str(page["last_id"])

    def _outcome(self, result: Mapping[str, Any]) -> Reply | ModelError:
        kind = result.get("type")
        try:
            if kind == "succeeded":
                return self._model.read(result["message"])
            if kind == "errored":
                error = (result.get("error") or {}).get("error") or {}
                status = _STATUS.get(str(error.get("type")), 500)
                return self._wire.refusal(status, {}, json.dumps({"error": error}))
            return self._wire.error("unavailable", f"the batch left this row {kind}", refused=True)
        except ModelError as unread:
            return unread


def _seconds(date: str) -> float:
    """Seconds since 1970 of an RFC 3339 date; Python 3.10 reads no `Z`."""
    return datetime.fromisoformat(date.replace("Z", "+00:00")).timestamp()
