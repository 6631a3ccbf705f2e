"""A *simulated* model that chooses skills by the words of their descriptions, and one that mends these.

It loads the listed skill whose description shares most words with the request, if any word is shared. A
description that says `every request` fits everything; words behind `Not for:` repel.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from _loopback import Call

ALWAYS = "Use it for every request."
_WORD = re.compile(r"[a-z][a-z_]{3,}")
_LISTED = re.compile(r"^- ([\w-]+): (.*?)(?: \(file: [^)]*\))?$", re.MULTILINE)
_ROLLOUT = re.compile(r'<rollout task="([^"]+)" kind="([^"]+)".*?<task>(.*?)</task>', re.DOTALL)
_SKILL = re.compile(r"<skill>\n(.*?)\n</skill>", re.DOTALL)
_BODY, _SHOWN = "data to understand it by:", "# Current skill"
_PLAIN = frozenset(
    {"about", "after", "before", "could", "other", "request", "should", "skill", "that", "their", "there"}
    | {"these", "this", "where", "which", "without", "would", "write", "with", "when", "what", "from", "into"}
)


class SimulatedRouter:
    """Answers for a target that is shown a list of skills, and for the optimizer of a description."""

    def __init__(self, queries: Iterable[str]) -> None:
        """`queries` are the requests it may meet: an agent's prompt holds more than that."""
        self._queries = tuple(queries)

    def query(self, text: str) -> str | None:
        """The request that a prompt is about."""
        return next((query for query in self._queries if query in text), None)

    def choice(self, text: str, query: str) -> str | None:
        """The listed skill that it would load; None is none of them."""
        fits = [(_fit(description, query), name) for name, description in _LISTED.findall(text)]
        best, name = max(fits, default=(0, ""))
        return name if best > 0 else None

    def __call__(self, call: Call) -> str:
        """What is said to a call of ours; the place says who is asked."""
        place = call.place or ""
        if not place.startswith("rollout/"):
            return self.patch(call.text, proof="/analyst_proof/" in place)
        query = self.query(call.text)
        return f"load: {self.choice(call.text, query or '') or 'none'}"

    def patch(self, text: str, *, proof: bool = False) -> str:
        """Edits for the failures of a prompt: words of requests that were missed, and of those that were not
        wanted.
        """
        described = _SKILL.search(text)
        description = described[1] if described else ""
        seen = _ROLLOUT.findall(text)
        missed = [(task, prompt) for task, kind, prompt in seen if kind == "should-load"]
        unwanted = [(task, prompt) for task, kind, prompt in seen if kind != "should-load"]
        edits = list(_edits(description, text.partition(_BODY)[2].partition(_SHOWN)[0], missed, unwanted))
        if proof:
            return json.dumps({"edits": edits})
        told = [{key: edit[key] for key in ("op", "target", "content") if key in edit} for edit in edits]
        summary = [{"failure_type": "choice", "count": len(seen), "description": "wrongly chosen"}]
        patch = {"reasoning": "simulated", "edits": told}
        return json.dumps({"batch_size": len(seen), "failure_summary": summary, "patch": patch})


def _edits(
    description: str, body: str, missed: Sequence[tuple[str, str]], unwanted: Sequence[tuple[str, str]]
) -> Iterator[dict[str, object]]:
    known = _words(description)
    wanted = Counter(word for _, text in missed for word in sorted(_words(text)))
    spared = Counter(word for _, text in unwanted for word in sorted(_words(text)))
    if ALWAYS in description:  # then every request that should load it already does
        named = [word for word, _ in Counter(_listed_words(body)).most_common() if word not in spared]
        content = f"Use it for: {', '.join(named[:20])}."
        yield {"op": "replace", "target": ALWAYS, "content": content, "tasks": [task for task, _ in unwanted]}
        return
    new = [word for word, _ in wanted.most_common() if word not in known and word not in spared]
    if new:
        content = f"Use it for: {', '.join(new[:8])}."
        yield {"op": "append", "content": content, "tasks": [task for task, _ in missed]}
    if unwanted:
        shared = [word for word, _ in spared.most_common() if word not in known and word not in wanted]
        content = f"Not for: {', '.join(shared[:8])}."
        yield {"op": "append", "content": content, "tasks": [task for task, _ in unwanted]}


def _fit(description: str, query: str) -> int:
    if ALWAYS in description:
        return 100
    asked = _words(query)
    parts = re.split(r"(Not for:[^.]*\.)", description)
    return sum(
        -2 * len(_words(part) & asked) if part.startswith("Not for:") else len(_words(part) & asked)
        for part in parts
    )


def _words(text: str) -> set[str]:
    return set(_listed_words(text))


def _listed_words(text: str) -> list[str]:
    return [word.removesuffix("s") for word in _WORD.findall(text.lower()) if word not in _PLAIN]
