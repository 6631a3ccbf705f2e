"""The *simulated* target and optimizer of the worlds that search strategies are compared in.

The optimizer reads what a request shows - the skill, the ids of failed cases, the listed edits - and looks
up in the world what those cases lack. It is as often wrong, vague or forgetful as the kind of world says.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from _worlds import ANCHOR, CASE, HARMFUL_LINES, Line, World, normalised
from skillopt.messages import Reply, Request, Usage

EDITS = 3
"""Causes that an analyst names at most: those behind most of the failures it is shown."""
SHUNS = 0.5
"""Chance that an analyst leaves a cause alone whose edit it is told was tried in vain."""
NARROWS = 0.5
"""Chance that an edit it is told was tried in vain is not worded broadly once more."""
FORGETS_TASK = 0.15
"""Chance that a task that an edit should fix is not named."""
NAMES_TASK = 0.05
"""Chance that a task that an edit has nothing to do with is named."""
MERGE_DROPS = 0.15
"""Chance that a merge drops an edit on opinion; a small real model dropped the right one."""
JOINS = 0.85
"""Chance that two wordings of one rule are recognised as the same."""
JOINS_WRONGLY = 0.03
"""Chance that an edit is taken for the same as one that it has nothing to do with."""
RANKS_RIGHT = 0.2
"""How much an edit that helps is preferred in a ranking that is random otherwise, of 1."""
MISQUOTES = 0.05
_ROLLOUT = re.compile(r'<rollout task="(C\d{6})"')
_SKILL = re.compile(r"<skill>.*?</skill>", re.DOTALL)


class Simulated:
    """Both roles in one model, so that a run needs no network."""

    endpoint = "simulated worlds"

    def __init__(self, world: World, role: str) -> None:
        self._world = world
        self.fingerprint: Mapping[str, Any] = {"provider": "simulated", "model": role, "seed": world.seed}

    async def complete(self, request: Request) -> Reply:
        text = self._solve(request) if request.role == "target" else self._propose(request)
        asked = sum(len(message.content) for message in request.messages)
        usage = Usage(input_tokens=math.ceil(asked / 4), output_tokens=math.ceil(len(text) / 4))
        return Reply(text=text, finish="stop", usage=usage, model="simulated")

    async def close(self) -> None:
        """Nothing is open."""

    def _solve(self, request: Request) -> str:
        world, case = self._world, CASE.findall(request.messages[-1].content)[0]
        solved = world.is_solved(case, world.reading(request.messages[0].content))
        dice = random.Random(f"noise {world.seed} {request.place} {request.draw}")
        if dice.random() < world.kind.noise:
            solved = not solved
        # As long as a small model reasons before it answers.
        steps = "\n".join(
            f"Step {number}: the field says {dice.getrandbits(64):016x}." for number in range(10)
        )
        return f"{steps}\n<answer>{world.code(case) if solved else 'unknown'}</answer>"

    def _propose(self, request: Request) -> str:
        optimizer = _Optimizer(self._world, request)
        return json.dumps(_STAGES[request.stage](optimizer), ensure_ascii=False)


class _Optimizer:
    """One question to the optimizer, and its luck, which depends on the place of the question alone."""

    def __init__(self, world: World, request: Request) -> None:
        self._world = world
        self._asked = "\n".join(message.content for message in request.messages)
        self._dice = random.Random(f"optimizer {world.seed} {request.place}")
        _, shown, rest = self._asked.rpartition("<skill>")
        self._skill = rest.partition("</skill>")[0] if shown else ""
        self._stated = world.reading(self._skill)

    def failure(self) -> dict[str, Any]:
        """Edits of an analyst, who does not say which tasks they are for."""
        edits = self._study()
        summary = [{"failure_type": "rule_missing", "count": len(edits), "description": "simulated"}]
        return {"batch_size": 0, "failure_summary": summary, "patch": self._patch(edits)}

    def lane(self) -> dict[str, Any]:
        """The same edits with the tasks that each should fix."""
        return {"edits": self._study()}

    def joining(self) -> dict[str, Any]:
        """Numbers of edits that are taken for the same: most of those that are, and a few that are not."""
        groups: dict[str, list[int]] = {}
        for number, edit in enumerate(self._listed()):
            same = self._recognised(edit)
            if groups and self._dice.random() < JOINS_WRONGLY:
                same = self._dice.choice(list(groups))
            groups.setdefault(same, []).append(number)
        return {"same": [group for group in groups.values() if len(group) > 1]}

    def success(self) -> dict[str, Any]:
        edits = [self._add(self._useless(), ())] if self._dice.random() < 0.3 else []
        return {"batch_size": 0, "success_patterns": ["simulated"], "patch": self._patch(edits)}

    def merge(self) -> dict[str, Any]:
        """One edit for wordings that are recognised as the same, most support first; some get lost."""
        support: Counter[str] = Counter()
        kept: dict[str, dict[str, Any]] = {}
        for edit in self._listed():
            same = self._recognised(edit)
            support[same] += int(edit.get("support_count") or 1)
            kept.setdefault(same, edit)
        return self._patch(
            [
                {**kept[same], "support_count": count}
                for same, count in support.most_common()
                if self._dice.random() >= MERGE_DROPS
            ]
        )

    def ranking(self) -> dict[str, Any]:
        """An order that is close to random."""
        listed = self._listed()
        opinion = [self._dice.random() + RANKS_RIGHT * (self._does(edit) == "right") for edit in listed]
        order = sorted(range(len(listed)), key=lambda index: -opinion[index])
        return {"reasoning": "simulated", "selected_indices": order}

    def repair(self) -> dict[str, Any]:
        return self._patch([{**edit, "target": ANCHOR} for edit in self._listed() if "content" in edit])

    def slow_update(self) -> dict[str, Any]:
        """Guidance about one rule that the shown cases lack, and now and then a harmful line."""
        edits = self._edits(list(dict.fromkeys(CASE.findall(self._asked))), 1)
        if self._dice.random() < self._world.kind.harm:
            edits.append(self._harmful(()))
        lines = [str(edit["content"]) for edit in edits if "content" in edit]
        return {
            "reasoning": "simulated",
            "slow_update_content": "\n".join(["## In the long run", "", *lines]),
        }

    def meta_skill(self) -> dict[str, Any]:
        return {"reasoning": "simulated", "meta_skill_content": "Add one missing rule at a time."}

    def _study(self) -> list[dict[str, Any]]:
        """Edits for what most of the shown failures lack, right or wrong, and now and then a harmful one."""
        cases = list(dict.fromkeys(_ROLLOUT.findall(self._asked)))
        edits = self._edits(cases, EDITS)
        if self._dice.random() < self._world.kind.harm:
            edits.insert(self._dice.randint(0, len(edits)), self._harmful(cases))
        return edits

    def _recognised(self, edit: Mapping[str, Any]) -> str:
        """What two edits have in common that are taken for the same."""
        text = str(edit.get("content") or edit.get("target"))
        line = self._world.meaning(text)
        return str(line) if line is not None and self._dice.random() < JOINS else normalised(text)

    def _edits(self, cases: Sequence[str], most: int) -> list[dict[str, Any]]:
        """Edits against the commonest causes of the failures of cases: lines that are missing or do harm."""
        world, dice = self._world, self._dice
        stated = {line.number for line in self._stated if line.does != "harmful"}
        found: dict[Line, list[str]] = {}
        for id in cases:
            case = world.case(id)
            for line in sorted(case.broken_by & self._stated):
                found.setdefault(line, []).append(id)
            for rule in sorted(case.needs - stated):
                found.setdefault(Line("right", rule), []).append(id)
        causes = sorted(found, key=lambda cause: (-len(found[cause]), dice.random()))
        elsewhere = _SKILL.sub("", self._asked)
        edits: list[dict[str, Any]] = []
        for cause in causes:
            was_tried = any(
                text in elsewhere
                for does in ("right", "broad")
                for text in world.wordings(Line(does, cause.number))
            )
            if cause.does == "right" and was_tried and dice.random() < SHUNS:
                continue
            edits.append(self._against(cause, self._named(found[cause], cases), was_tried=was_tried))
            if len(edits) == most:
                break
        if not causes and cases and dice.random() < 0.5:
            edits.append(self._add(self._useless(), self._named(cases[:2], cases)))
        return edits

    def _against(self, cause: Line, tasks: Sequence[str], *, was_tried: bool) -> dict[str, Any]:
        world, dice = self._world, self._dice
        rule = cause.number
        chance = world.chance_right[rule] if cause.does == "right" else world.kind.right
        if dice.random() >= chance:
            return self._add(self._useless(), tasks)
        if cause.does != "right":
            (line,) = [line for line in self._skill.splitlines() if world.meaning(line) == cause][:1]
            return {"op": "delete", "target": f"{line}\n", "tasks": list(tasks)}
        is_broad = dice.random() < world.kind.broad and not (was_tried and dice.random() < NARROWS)
        return self._add(dice.choice(world.wordings(Line("broad" if is_broad else "right", rule))), tasks)

    def _harmful(self, cases: Sequence[str]) -> dict[str, Any]:
        line = Line("harmful", self._dice.randrange(HARMFUL_LINES))
        named = self._dice.sample(list(cases), min(len(cases), 3))
        return self._add(self._dice.choice(self._world.wordings(line)), named)

    def _useless(self) -> str:
        return f"Read line {self._dice.randrange(10_000)} of a case twice."

    def _add(self, text: str, tasks: Sequence[str]) -> dict[str, Any]:
        """An edit that adds a line, at the end or below the first rule, here and there misquoted."""
        dice = self._dice
        content = f"- {text}" if dice.random() < 0.8 else f"* {text.rstrip('.')}"
        if dice.random() < 0.7:
            return {"op": "append", "content": content, "tasks": list(tasks)}
        target = ANCHOR.upper() if dice.random() < MISQUOTES else ANCHOR
        return {"op": "insert_after", "target": target, "content": content, "tasks": list(tasks)}

    def _named(self, meant: Sequence[str], shown: Sequence[str]) -> list[str]:
        """The tasks that an edit is said to fix."""
        return [id for id in shown if self._dice.random() < (1 - FORGETS_TASK if id in meant else NAMES_TASK)]

    def _patch(self, edits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Edits for somebody who did not ask which tasks they should fix."""
        return {
            "reasoning": "simulated",
            "edits": [{key: edit[key] for key in edit if key != "tasks"} for edit in edits],
        }

    def _listed(self) -> list[dict[str, Any]]:
        """The edits that a request lists as JSON: the last fenced block."""
        return list(json.loads(self._asked.rpartition("```json")[2].partition("```")[0]))

    def _does(self, edit: Mapping[str, Any]) -> str | None:
        line = self._world.meaning(str(edit.get("content")))
        return None if line is None else line.does


_STAGES: Mapping[str, Callable[[_Optimizer], dict[str, Any]]] = {
    "analyst_failure": _Optimizer.failure,
    "analyst_proof": _Optimizer.lane,
    "joining": _Optimizer.joining,
    "analyst_success": _Optimizer.success,
    "merge": _Optimizer.merge,
    "ranking": _Optimizer.ranking,
    "repair": _Optimizer.repair,
    "slow_update": _Optimizer.slow_update,
    "meta_skill": _Optimizer.meta_skill,
}
