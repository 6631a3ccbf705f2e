"""OpenAI's batches: rows are uploaded as a file, and answers and errors come as two more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skillopt.errors import Kind, ModelError
from skillopt.messages import Reply, Request
from skillopt.models.port import BatchProgress
from skillopt.models.providers._openai import OpenAIModel
from skillopt.models.wires.http import Wire, json_lines

_OVER = frozenset({"completed", "failed", "expired", "cancelled"})
_LISTED = 100
"""Batches of one page of the list, which begins with the newest."""


class OpenAIBatches:
    """`BatchApi` of the OpenAI API, https://platform.openai.com/docs/api-reference/batch."""

    most_rows = 50_000

    def __init__(self, model: OpenAIModel, wire: Wire) -> None:
        self._model = model
        self._wire = wire

    def row(self, name: str, request: Request) -> Mapping[str, Any]:
        path = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}[self._model.api(request)]
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
        return self._id(await self._wire.send("POST", "/batches", self._wire.encoded(asked)))

    async def look(self, batch: str) -> BatchProgress:
        found = await self._get(batch)
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
        found = await self._get(batch)
        outcomes: dict[str, Reply | ModelError] = {}
        for name in ("output_file_id", "error_file_id"):
            if found.get(name):
                for line in json_lines(await self._wire.send("GET", f"/files/{found[name]}/content")):
                    outcomes[str(line.get("custom_id"))] = self._outcome(line)
        return outcomes

    async def sent_since(self, began: float, token: str, rows: int) -> Sequence[str]:
        after = ""
        while True:
            page = self._wire.json_object(
                await self._wire.send("GET", f"/batches?limit={_LISTED}{after and f'&after={after}'}")
            )
            found = [one for one in page.get("data") or () if one.get("created_at", 0) >= began]
            for one in found:
                if (one.get("metadata") or {}).get("token") == token:
                    return [str(one["id"])]
            if len(found) < _LISTED:
                return []
            after = str(found[-1]["id"])

    def _outcome(self, line: Mapping[str, Any]) -> Reply | ModelError:
        answered, error = line.get("response"), line.get("error")
        try:
            if not isinstance(answered, Mapping):
                said = (error or {}).get("message") or f"the batch has no answer: {error}"
                return self._wire.error("unavailable", str(said), refused=True)
            if answered.get("status_code") != 200:
                status = int(answered.get("status_code") or 500)
                return self._wire.refusal(status, {}, json.dumps(answered.get("body")))
            return self._model.read(answered["body"])
        except ModelError as unread:
            return unread

    async def _get(self, batch: str) -> dict[str, Any]:
        return self._wire.json_object(await self._wire.send("GET", f"/batches/{batch}"))

    def _id(self, text: str) -> str:
        found = self._wire.json_object(text).get("id")
        if not isinstance(found, str):
            raise self._wire.malformed("it has no id")
        return found
