"""The one door to what is kept of a run's calls and rollouts; `store/` implements it, tests pass a
dictionary.
"""

from __future__ import annotations

from typing import Protocol

from skillopt.messages import Reply, Request


class Records(Protocol):
    """Replies by key. What `put` returned from is there after `kill -9`."""

    def get(self, key: str) -> Reply | None:
        """The stored reply, or None."""
        ...

    def put(self, key: str, request: Request, reply: Reply) -> None:
        """Store a reply that arrived, before anybody uses it."""
        ...
