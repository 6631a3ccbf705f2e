"""Figures of runs: a row of a list, a column of a comparison, and what makes runs unequal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from skillopt.errors import UsageError
from skillopt.runs.log import DATABASE
from skillopt.runs.tail import task_digests
from skillopt.runs.view import RunView
from skillopt.runs.words import NOT_MEASURED, UNKNOWN, change, interval, money, outcome, score
from skillopt.skill.document import SKILL_FILE

_ROWS = ("seed", "best", "change")
PROVEN = "real, or chance?"
_OWN = frozenset({"env.out_root", "output.predictions", "store.tasks"})
"""Settings that say where a run lies and what it exports."""


def row(view: RunView) -> dict[str, Any]:
    """A run in a list, for programs."""
    compared = view.test.comparison
    return {
        **_shared(view),
        "skill": skill_name(view),
        "step": 0 if view.state is None else view.state.step,
        "steps": view.started.steps,
        "baseline": view.baseline,
        "best": view.best,
        "test": {} if compared is None else {"seed": compared.before, "best": compared.after},
        "in_flight": view.in_flight,
        "tokens_reserved": view.tokens_reserved,
        "changed": datetime.fromtimestamp(view.changed, timezone.utc).isoformat(timespec="seconds"),
    }


def _column(view: RunView) -> dict[str, Any]:
    """A run beside others, for programs."""
    found, skill = view.test.comparison, None
    test: dict[str, Any] | None = None
    outcomes = Counter(outcome(record.action) for record in view.records)
    accepted = outcomes["accepted"] + outcomes["taken without a gate"]
    if found is not None:
        test = {"seed": found.before, "best": found.after, "delta": found.delta}
        test |= {"interval": list(found.interval), "level": found.level, "p": found.p, "n": found.n}
    if view.baseline is not None:
        skill = {"seed": len(view.seed_skill), "best": len(view.best_skill)}
    return {
        **_shared(view),
        "steps": len(view.records),
        "planned": view.started.steps,
        "policy": _policy(view),
        "metric": view.metric,
        "val": {"seed": view.baseline, "best": view.best},
        "test": test,
        "accepted": accepted,
        "rejected": outcomes["rejected"],
        "others": len(view.records) - accepted - outcomes["rejected"],
        "skill_characters": skill,
        "claim": view.claim or None,
    }


def _shared(view: RunView) -> dict[str, Any]:
    return {
        "folder": str(view.folder),
        "status": view.status,
        "simulated": view.started.simulated,
        "benchmark": view.started.benchmark,
        "target": view.started.target,
        "optimizer": view.started.optimizer,
        "significance": view.significance,
        "looks": view.test_count,
        "calls": view.spent.calls,
        "tokens": view.spent.tokens,
        "usd": view.spent.dollars,
    }


def skill_name(view: RunView) -> str:
    """What the seed is called; empty where it is the benchmark's own."""
    given = (view.config or {}).get("env", {}).get("skill_init")
    if given is None:
        return ""
    return Path(given).parent.name if Path(given).name == SKILL_FILE else Path(given).name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Runs side by side. `settings` holds the keys in which they differ, a value a run; None is no key."""

    views: tuple[RunView, ...]
    settings: Mapping[str, tuple[str | None, ...]]
    remarks: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "runs": [_column(view) for view in self.views],
            "settings_that_differ": {key: list(values) for key, values in self.settings.items()},
            "remarks": list(self.remarks),
        }


def compare(views: Sequence[RunView]) -> RunComparison:
    """Put runs side by side; they may be finished, stopped or at work."""
    if len(views) < 2:
        raise UsageError(
            f"A comparison needs two runs, and {len(views)} is named. 'skillopt runs FOLDER' lists what is"
            " there."
        )
    digests = [task_digests(view.folder / DATABASE) for view in views]
    remarks = tuple(_remarks(views, digests))
    return RunComparison(views=tuple(views), settings=_differing(views), remarks=remarks)


def short_names(folders: Sequence[Path]) -> list[str]:
    """As much of the end of each path as tells them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for depth in range(1, max(map(len, parts))):
        names = ["/".join(one[-depth:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def tested(view: RunView) -> str:
    """What seed and best are compared on; before its end a cross-fitted run has no test tasks."""
    if view.test.folds:
        return f"{view.test.folds} folds"
    return "sealed test" if view.started.counts.get("test") else "test"


def score_table(view: RunView) -> list[tuple[str, str, str]]:
    """Heads and rows: seed against best, on val and on the test, and what that proves."""
    compared = view.test.comparison
    val = [score(view.baseline), score(view.best), change(view.baseline, view.best)]
    if compared is None:
        test = [NOT_MEASURED, NOT_MEASURED, ""]
        heads, proven = ("", f"val ({view.metric})", tested(view)), ("", "", view.significance)
        return [heads, *zip(_ROWS, val, test, strict=True), proven]
    gained = f"{compared.delta:+.3f}, {interval(compared)}"
    test = [score(compared.before), score(compared.after), gained]
    seed, best, changed = zip(_ROWS, val, test, strict=True)
    return [
        ("", f"val ({view.metric})", f"{tested(view)} ({view.test.metric}, n = {compared.n})"),
        seed,
        best,
        *([("last", "", score(view.test.final))] if view.test.final is not None else []),
        changed,
        ("", "", f"{view.significance}, p = {compared.p:.2g} ({compared.test})"),
        ("tasks", "", f"{len(compared.fixed)} fixed, {len(compared.broken)} broken"),
        *((name, "", _before_and_after(one.before, one.after)) for name, one in view.test.targets.items()),
        *(
            (name, "", _before_and_after(*(getattr(view.test.triggering[arm], name) for arm in _ROWS[:2])))
            for name in ("recall", "precision")
            if view.test.triggering
        ),
    ]


def _before_and_after(before: float | None, after: float | None) -> str:
    return f"{score(before)} to {score(after)}"


def in_words(view: RunView) -> dict[str, str]:
    """The figures of one run as a column of the comparison."""
    figures, found, state = _column(view), view.test.comparison, view.status
    gained, skill = change(view.baseline, view.best), figures["skill_characters"]
    return {
        "status": state + (", simulated" if view.started.simulated else ""),
        "steps": f"{figures['steps']} of {figures['planned']}",
        "gate": f"{figures['policy']}, {view.metric}",
        "val seed": score(view.baseline),
        "val best": score(view.best) + (f" ({gained})" if gained else ""),
        "test seed": score(found.before if found else None),
        "test best": score(found.after if found else None) + (f" ({found.delta:+.3f})" if found else ""),
        "change": "" if found is None else f"{interval(found)}, n = {found.n}",
        PROVEN: view.significance,
        "looks at test": str(view.test_count),
        "accepted, rejected": f"{figures['accepted']}, {figures['rejected']}",
        "best skill": f"{skill['best']:,} characters (seed {skill['seed']:,})" if skill else NOT_MEASURED,
        "spent": f"{view.spent.calls:,} calls, {view.spent.tokens:,} tokens",
        "cost": money(view.spent.dollars),
    }


def _policy(view: RunView) -> str:
    """The gate's policy, as the configuration names it; off where there is no gate."""
    settings = dict(view.settings)
    return "off" if settings.get("evaluation.use_gate") == "false" else settings.get("gate.policy", UNKNOWN)


def _differing(views: Sequence[RunView]) -> dict[str, tuple[str | None, ...]]:
    settings = [dict(one.settings) for one in views]
    keys = dict.fromkeys(key for one in settings for key in one)
    values = {key: tuple(one.get(key) for one in settings) for key in keys if key not in _OWN}
    return {key: found for key, found in values.items() if len({_place(key, one) for one in found}) > 1}


def _place(key: str, value: str | None) -> str | None:
    """A path as it leads from here: a run that took its settings from another has whole ones."""
    return str(Path(value).absolute()) if value is not None and key.endswith("path") else value


def _remarks(views: Sequence[RunView], tasks: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What keeps figures that stand side by side from being compared."""
    for split in ("val", "test"):
        if len({one.get(split) for one in tasks}) > 1:
            yield (
                f"The {split} tasks are not the same in all of these runs: their {split} scores cannot be"
                " compared."
            )
    if len({view.metric for view in views}) > 1:
        yield f"The scores are not of one metric: {', '.join(view.metric for view in views)}."
    if sum(view.test.comparison is not None for view in views) > 1:
        yield "A run chosen by its test score needs a new test: the best of several looks better than it is."
    if any(not view.config for view in views):
        yield "A run without settings.json is among these: settings it does not tell are shown as -."
