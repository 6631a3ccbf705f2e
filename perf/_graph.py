"""Decides what a run's calls could at best have taken: a graph of calls, scheduled longest path first on a
fixed number of slots.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class _Node:
    seconds: float
    pool: str | None
    after: tuple[int, ...]


@dataclass(slots=True)
class Graph:
    """Calls and milestones, each added after what it depends on. A milestone takes no time and no slot."""

    nodes: list[_Node] = field(default_factory=list)
    milestones: dict[str, int] = field(default_factory=dict)

    def call(self, seconds: float, pool: str, after: Iterable[int]) -> int:
        """A call that takes a slot of its pool for so many seconds, once everything in `after` is done."""
        self.nodes.append(_Node(seconds, pool, tuple(dict.fromkeys(after))))
        return len(self.nodes) - 1

    def milestone(self, name: str, after: Iterable[int]) -> int:
        """A moment with a name: everything in `after` is done."""
        self.nodes.append(_Node(0.0, None, tuple(dict.fromkeys(after))))
        self.milestones[name] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def schedule(self, slots: Mapping[str, int]) -> list[float]:
        """When each node ends, under list scheduling: whenever a slot is free, the ready call with the
        longest path behind it.
        """
        followers: list[list[int]] = [[] for _ in self.nodes]
        waits = [len(node.after) for node in self.nodes]
        for index, node in enumerate(self.nodes):
            for earlier in node.after:
                followers[earlier].append(index)
        behind = [0.0] * len(self.nodes)
        for index in reversed(range(len(self.nodes))):
            behind[index] = self.nodes[index].seconds + max(
                (behind[one] for one in followers[index]), default=0.0
            )
        ends = [0.0] * len(self.nodes)
        free = dict(slots)
        ready: dict[str, list[tuple[float, int]]] = {pool: [] for pool in slots}
        running: list[tuple[float, int]] = []

        def done(index: int, now: float) -> None:
            finished = [index]
            while finished:
                one = finished.pop()
                ends[one] = now
                for follower in followers[one]:
                    waits[follower] -= 1
                    if waits[follower] == 0:
                        admit(follower, finished)

        def admit(index: int, finished: list[int]) -> None:
            pool = self.nodes[index].pool
            if pool is None:
                finished.append(index)
            else:
                heapq.heappush(ready[pool], (-behind[index], index))

        for index in [index for index, count in enumerate(waits) if count == 0]:
            opened: list[int] = []
            admit(index, opened)
            for one in opened:
                done(one, 0.0)
        now = 0.0
        while True:
            for pool, queue in ready.items():
                while queue and free[pool]:
                    free[pool] -= 1
                    _, index = heapq.heappop(queue)
                    heapq.heappush(running, (now + self.nodes[index].seconds, index))
            if not running:
                return ends
            now, index = heapq.heappop(running)
            free[self.nodes[index].pool or ""] += 1
            done(index, now)
