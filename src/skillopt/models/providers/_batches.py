"""Batches of OpenAI, whose rows, answers and errors are files, and of Anthropic, whose are in the calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from skillopt.errors import Kind, ModelError
from skillopt.messages import Reply, Request
from skillopt.models.port import BatchProgress
from skillopt.models.providers._openai import OpenAIModel
from skillopt.models.wires.http import Wire, json_lines

_LISTED = 100
"""Batches of one page of the list, which begins with the newest."""
_OVER = frozenset({"completed", "failed", "expired", "cancelled"})
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
    """The part of a model that a batch needs."""

    def body(self, request: Request) -> dict[str, Any]: ...
    def read(self, answer: Mapping[str, Any]) -> Reply: ...


class _Batches:
    """What both APIs have: ids, a list that begins with the newest, and outcomes that may be unreadable."""

    path: str
    cursor: str
    """The parameter that names the last batch of the page before."""

    def __init__(self, model: ReadsMessages, wire: Wire) -> None:
        self._model = model
        self._wire = wire

    async def _get(self, path: str) -> dict[str, Any]:
        return self._wire.json_object(await self._wire.send("GET", path))

    def _id(self, text: str) -> str:
        found = self._wire.json_object(text).get("id")
        if not isinstance(found, str):
            raise self._wire.malformed("it has no id")
        return found

    async def _since(self, began: float) -> list[Mapping[str, Any]]:
        """The batches of this account that were created after a time."""
        every: list[Mapping[str, Any]] = []
        after = ""
        while True:
            page = await self._get(f"{self.path}?limit={_LISTED}{after and f'&{self.cursor}={after}'}")
            found = [one for one in page.get("data") or () if _seconds(one["created_at"]) >= began]
            every += found
            if not found or not page.get("has_more"):
                return every
            after = str(page["last_id"])

    def _outcomes(self, text: str) -> dict[str, Reply | ModelError]:
        outcomes: dict[str, Reply | ModelError] = {}
        for line in json_lines(text):
            try:
                outcomes[str(line.get("custom_id"))] = self._outcome(line)
            except ModelError as unread:
                outcomes[str(line.get("custom_id"))] = unread
        return outcomes

    def _outcome(self, line: Mapping[str, Any]) -> Reply | ModelError:
        raise NotImplementedError


class AnthropicBatches(_Batches):
    """`BatchApi` of the Anthropic API, https://docs.claude.com/en/api/creating-message-batches."""

    most_rows = 100_000
    path, cursor = "/v1/messages/batches", "after_id"

    def row(self, name: str, request: Request) -> Mapping[str, Any]:
        return {"custom_id": name, "params": self._model.body(request)}

    async def create(self, token: str, rows: Sequence[Mapping[str, Any]]) -> str:
        return self._id(
            await self._wire.send("POST", self.path, self._wire.encoded({"requests": list(rows)}))
        )

    async def look(self, batch: str) -> BatchProgress:
        found = await self._get(f"{self.path}/{batch}")
        counts = {name: int(number or 0) for name, number in (found.get("request_counts") or {}).items()}
        return BatchProgress(
            is_over=found.get("processing_status") == "ended",
            done=sum(counts.values()) - counts.get("processing", 0),
        )

    async def results(self, batch: str) -> Mapping[str, Reply | ModelError]:
        return self._outcomes(await self._wire.send("GET", f"{self.path}/{batch}/results"))

    async def sent_since(self, began: float, token: str, rows: int) -> Sequence[str]:
        # A batch carries no mark of ours: those of the right size are candidates, and their rows tell.
        every = await self._since(began)
        return [str(one["id"]) for one in every if sum(one["request_counts"].values()) == rows]

    def _outcome(self, line: Mapping[str, Any]) -> Reply | ModelError:
        result = line.get("result") or {}
        if result.get("type") == "succeeded":
            return self._model.read(result["message"])
        if result.get("type") == "errored":
            error = (result.get("error") or {}).get("error") or {}
            status = _STATUS.get(str(error.get("type")), 500)
            return self._wire.refusal(status, {}, json.dumps({"error": error}))
        return self._wire.error("unavailable", f"the batch left this row {result.get('type')}", refused=True)


class OpenAIBatches(_Batches):
    """`BatchApi` of the OpenAI API, https://platform.openai.com/docs/api-reference/batch."""

    most_rows = 50_000
    path, cursor = "/batches", "after"

    def __init__(self, model: OpenAIModel, wire: Wire) -> None:
        super().__init__(model, wire)
        self._api = model.api

    def row(self, name: str, request: Request) -> Mapping[str, Any]:
        path = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}[self._api(request)]
        return {"custom_id": name, "method": "POST", "url": path, "body": self._model.body(request)}

    async def create(self, token: str, rows: Sequence[Mapping[str, Any]]) -> str:
        lines = b"\n".join(self._wire.encoded(row) for row in rows)
        head, tail = f"--{token}\r\nContent-Disposition: form-data; name=", f"\r\n--{token}--\r\n"
        form = (
            f'{head}"purpose"\r\n\r\nbatch\r\n{head}"file"; filename="{token}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        kind = {"content-type": f"multipart/form-data; boundary={token}"}
        file = await self._wire.send("POST", "/files", form.encode() + lines + tail.encode(), kind)
        asked = {
            "input_file_id": self._id(file),
            "endpoint": rows[0]["url"],
            "completion_window": "24h",
            "metadata": {"token": token},
        }
        return self._id(await self._wire.send("POST", self.path, self._wire.encoded(asked)))

    async def look(self, batch: str) -> BatchProgress:
        found = await self._get(f"{self.path}/{batch}")
        counts, failure = found.get("request_counts") or {}, None
        if found.get("status") == "failed":
            problems = (found.get("errors") or {}).get("data") or ()
            said = "; ".join(str(one.get("message") or one.get("code")) for one in problems) or "no reason"
            is_full = any(one.get("code") == "token_limit_exceeded" for one in problems)
            kind: Kind = "rate_limit" if is_full else "contract"
            failure = self._wire.error(kind, f"the batch {batch} failed: {said}", refused=True)
        return BatchProgress(
            is_over=found.get("status") in _OVER,
            done=int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
            failure=failure,
        )

    async def results(self, batch: str) -> Mapping[str, Reply | ModelError]:
        found = await self._get(f"{self.path}/{batch}")
        outcomes: dict[str, Reply | ModelError] = {}
        for name in ("output_file_id", "error_file_id"):
            if found.get(name):
                outcomes |= self._outcomes(await self._wire.send("GET", f"/files/{found[name]}/content"))
        return outcomes

    async def sent_since(self, began: float, token: str, rows: int) -> Sequence[str]:
        every = await self._since(began)
        return [str(one["id"]) for one in every if (one.get("metadata") or {}).get("token") == token]

    def _outcome(self, line: Mapping[str, Any]) -> Reply | ModelError:
        answered, error = line.get("response"), line.get("error")
        if not isinstance(answered, Mapping):
            said = (error or {}).get("message") or f"the batch has no answer: {error}"
            return self._wire.error("unavailable", str(said), refused=True)
        if answered.get("status_code") != 200:
            status = int(answered.get("status_code") or 500)
            return self._wire.refusal(status, {}, json.dumps(answered.get("body")))
        return self._model.read(answered["body"])


def _seconds(date: float | str) -> float:
    """Seconds since 1970, also of an RFC 3339 date; Python 3.10 reads no `Z`."""
    return datetime.fromisoformat(date.replace("Z", "+00:00")).timestamp() if isinstance(date, str) else date
