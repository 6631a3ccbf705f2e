"""The batches of a simulated provider: files and batches of OpenAI, message batches of Anthropic."""

from __future__ import annotations

import email.parser
import email.policy
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

from aiohttp import web

from skillopt.testing import Answer, Call, Logged, LoopbackProvider, Misbehaviour
from skillopt.testing._answers import counted, texts
from skillopt.testing._bodies import rendered
from skillopt.testing._http import api_of, keys, reset
from skillopt.testing._loopback import error_answer

Ending: TypeAlias = Literal["errored", "invalid", "expired"]
_ANTHROPIC = "/v1/messages/batches"
_STATUS = {
    "errored": (500, "api_error", "Internal server error"),
    "invalid": (400, "invalid_request_error", "No."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """How batches go. Outcomes come in the reverse order of their rows."""

    seconds: float = 0.0
    """From creation to the end, at the least."""
    looks: int = 2
    """How often a batch is looked at before it is over, at the least."""
    row: Callable[[Call], Ending | None] = lambda call: None
    """What a row ends with, where it is no answer: `errored` may pass, `invalid` may not."""
    create: Callable[[int], Misbehaviour | None] = lambda number: None
    """What is wrong with a creation, by its number; a connection that is reset was created all the same."""
    fails: Callable[[int], str | None] = lambda number: None
    """The code with which a batch fails as a whole, by its number; only OpenAI's do."""


@dataclass(slots=True, kw_only=True)
class MadeBatch:
    """One batch that was created."""

    id: str
    api: Literal["openai", "anthropic"]
    rows: Sequence[Mapping[str, Any]]
    began: float
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    metadata: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    looks: int = 0
    is_over: bool = False


class BatchDesk:
    """Answers the calls that belong to batches. `answer` answers and bills one row, or says how it ends."""

    def __init__(
        self, rules: BatchRules, answer: Callable[[str, Mapping[str, Any]], Ending | dict[str, Any]]
    ) -> None:
        self.rules = rules
        self.made: list[MadeBatch] = []
        self._answer = answer
        self._files: dict[str, bytes] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def owns(self, path: str) -> bool:
        """Whether a path belongs to batches."""
        return path.startswith((_ANTHROPIC, "/v1/batches", "/v1/files"))

    def handle(
        self, method: str, path: str, query: Mapping[str, str], raw: bytes, kind: str
    ) -> tuple[Any, Misbehaviour | None]:
        """The answer (an object or a text), or None where there is no such thing; and what goes wrong with
        it.
        """
        with self._lock:
            if method == "POST" and path == "/v1/files":
                return self._upload(raw, kind), None
            if method == "POST" and path in ("/v1/batches", _ANTHROPIC):
                wrong = self.rules.create(next(self._numbers))
                if wrong is not None and wrong.kind == "status":
                    return {}, wrong
                return self._told(self._create(path, json.loads(raw))), wrong
            return self._get(path, query), None

    def _upload(self, raw: bytes, kind: str) -> dict[str, Any]:
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
            b"content-type: " + kind.encode() + b"\r\n\r\n" + raw
        )
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        if parts["purpose"].get_payload(decode=True) != b"batch":
            raise ValueError("the purpose of the file is not batch")
        content = parts["file"].get_payload(decode=True)
        id = f"file-{len(self._files)}"
        self._files[id] = content if isinstance(content, bytes) else b""
        return {"id": id, "object": "file", "purpose": "batch", "bytes": len(self._files[id])}

    def _create(self, path: str, body: Mapping[str, Any]) -> MadeBatch:
        number = len(self.made)
        if path == _ANTHROPIC:
            made = MadeBatch(
                id=f"msgbatch_{number}", api="anthropic", rows=body["requests"], began=time.time()
            )
        else:
            if body["completion_window"] != "24h":
                raise ValueError("the completion window is 24h")
            lines = self._files[body["input_file_id"]].splitlines()
            made = MadeBatch(
                id=f"batch_{number}",
                api="openai",
                rows=[json.loads(line) for line in lines],
                began=time.time(),
                metadata=body.get("metadata") or {},
                failure=self.rules.fails(number),
            )
            if any(row["url"] != body["endpoint"] or row["method"] != "POST" for row in made.rows):
                raise ValueError("a row has another endpoint than its batch")
        names = [row["custom_id"] for row in made.rows]
        if len(set(names)) < len(names) or not all(0 < len(name) <= 64 for name in names):
            raise ValueError("custom_id must be unique and have 1 to 64 characters")
        self.made.append(made)
        if made.failure is None:
            made.outcomes = [self._outcome(made.api, row) for row in reversed(made.rows)]
        return made

    def _outcome(self, api: str, row: Mapping[str, Any]) -> dict[str, Any]:
        name, path = row["custom_id"], row.get("url", "/v1/messages")
        ending = self._answer(path, row["params"] if api == "anthropic" else row["body"])
        if api == "anthropic":
            result: dict[str, Any] = {"type": "succeeded", "message": ending}
            if ending == "expired":
                result = {"type": "expired"}
            elif isinstance(ending, str):
                _, kind, said = _STATUS[ending]
                result = {
                    "type": "errored",
                    "error": {"type": "error", "error": {"type": kind, "message": said}},
                }
            return {"custom_id": name, "result": result}
        answered: dict[str, Any] | None = {"status_code": 200, "request_id": f"req_{name}", "body": ending}
        error = None
        if ending == "expired":
            said = "This request could not be executed before the completion window expired."
            answered, error = None, {"code": "batch_expired", "message": said}
        elif isinstance(ending, str):
            status, kind, said = _STATUS[ending]
            answered = {"status_code": status, "body": {"error": {"type": kind, "message": said}}}
        return {"id": f"batch_req_{name}", "custom_id": name, "response": answered, "error": error}

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        if path in ("/v1/batches", _ANTHROPIC):
            listed = [self._told(one) for one in reversed(self.made)]
            last = query.get("after", query.get("after_id"))
            ids = [one["id"] for one in listed]
            rest = listed[ids.index(last) + 1 :] if last else listed
            page = rest[: int(query.get("limit", 20))]
            return {
                "object": "list",
                "data": page,
                "has_more": len(page) < len(rest),
                "last_id": page[-1]["id"] if page else None,
            }
        found = {one.id: one for one in self.made}
        if path.startswith("/v1/files/"):
            id, _, wanted = path.removeprefix("/v1/files/").removesuffix("/content").partition(":")
            lines = [one for one in found[id].outcomes if (wanted == "output") == _is_answer(one)]
            return "".join(json.dumps(one) + "\n" for one in lines)
        made = found.get(path.removesuffix("/results").rsplit("/", 1)[-1])
        if made is None:
            return None
        if path.endswith("/results"):
            if not made.is_over:
                return None
            return "".join(json.dumps(one) + "\n" for one in made.outcomes)
        made.looks += 1
        made.is_over = made.looks > self.rules.looks and time.time() - made.began >= self.rules.seconds
        return self._told(made)

    def _told(self, made: MadeBatch) -> dict[str, Any]:
        if made.api == "anthropic":
            ended = [one["result"]["type"] for one in made.outcomes] if made.is_over else []
            names = ("succeeded", "errored", "canceled", "expired")
            began = datetime.fromtimestamp(made.began, timezone.utc).isoformat().replace("+00:00", "Z")
            return {
                "id": made.id,
                "type": "message_batch",
                "processing_status": "ended" if made.is_over else "in_progress",
                "created_at": began,
                "request_counts": {
                    "processing": 0 if made.is_over else len(made.rows),
                    **{name: ended.count(name) for name in names},
                },
                "results_url": f"{_ANTHROPIC}/{made.id}/results" if made.is_over else None,
            }
        failed = [one for one in made.outcomes if not _is_answer(one)]
        status = "completed" if made.is_over else "in_progress" if made.looks > 1 else "validating"
        if made.is_over and any(one["error"] for one in failed):
            status = "expired"
        if made.failure is not None:
            status = "failed"
        counts = {"total": len(made.rows), "completed": 0, "failed": 0}
        if made.is_over:
            counts |= {"completed": len(made.rows) - len(failed), "failed": len(failed)}
        problem = {"code": made.failure, "message": f"simulated: {made.failure}"}
        return {
            "id": made.id,
            "object": "batch",
            "status": status,
            "created_at": int(made.began),
            "metadata": dict(made.metadata),
            "request_counts": counts,
            "errors": {"data": [problem]} if made.failure is not None else None,
            "output_file_id": f"{made.id}:output" if made.is_over and len(failed) < len(made.rows) else None,
            "error_file_id": f"{made.id}:error" if made.is_over and failed else None,
        }


def _is_answer(outcome: Mapping[str, Any]) -> bool:
    return bool(outcome["response"]) and outcome["response"]["status_code"] == 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRow(Logged):
    """A row of a batch in the log of its provider."""


class BatchProvider(LoopbackProvider):
    """A loopback provider that also takes batches, of OpenAI and of Anthropic."""

    def __init__(
        self, answer: Callable[[Call], Any], *, batches: BatchRules | None = None, **options: Any
    ) -> None:
        super().__init__(answer, **options)
        self.batches = BatchDesk(batches or BatchRules(), self._answer_row)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Calls that belong to batches are not logged; their rows are, when the batch is created."""
        if not self.batches.owns(request.path):
            return await super()._handle(request)
        if self._api_key is not None and self._api_key not in keys(request):
            return error_answer(401, "incorrect API key provided")
        raw, kind = await request.content.read(), request.headers.get("content-type", "")
        try:
            told, wrong = self.batches.handle(request.method, request.path, request.query, raw, kind)
        except (ValueError, KeyError) as error:
            return error_answer(400, str(error))
        if wrong is not None and wrong.kind == "reset":
            reset(request)
        elif wrong is not None:
            return error_answer(wrong.code, wrong.body, wrong.retry_after)
        if told is None:
            return error_answer(404, f"there is no {request.method} {request.path}")
        return web.Response(text=told if isinstance(told, str) else json.dumps(told))

    def _answer_row(self, path: str, body: Mapping[str, Any]) -> Ending | dict[str, Any]:
        api = api_of(path)
        if api is None:
            raise ValueError(f"no row can be sent to {path}")
        self._check(api, body)
        nowhere: dict[str, Any] = {"api": api, "place": None, "draw": None}
        with self._lock:
            digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            entry = LoggedRow(
                index=len(self._log), digest=digest, started=time.monotonic(), in_flight=0, **nowhere
            )
            self._log.append(entry)
        text = "\n".join(texts(api, body))
        call = Call(index=entry.index, attempt=0, body=body, text=text, headers={}, path=path, **nowhere)
        ending = self.batches.rules.row(call)
        if ending is not None:  # such rows are not billed
            return ending
        said = self._answer(call)
        answer = counted(Answer(text=said) if isinstance(said, str) else said, call)
        self._note(entry, status=200, input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
        return rendered(call, answer)
