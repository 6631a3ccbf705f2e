"""How several runs read side by side: figures, settings that differ, and what makes them unequal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import UsageError
from skillopt.runs.log import DATABASE
from skillopt.runs.tail import task_digests
from skillopt.runs.values import Facts
from skillopt.runs.words import NOT_MEASURED, UNKNOWN, change, interval, money, outcome, score

_ROWS = ("seed", "best", "change")
PROVEN = "real, or chance?"
_OWN = frozenset({"env.out_root", "output.predictions", "store.tasks"})
"""Settings that say where a run lies and what it exports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Runs side by side. `settings` holds the keys in which they differ, a value a run; None is no key."""

    folders: tuple[Path, ...]
    facts: tuple[Facts, ...]
    settings: Mapping[str, tuple[str | None, ...]]
    remarks: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        runs = [
            {"folder": str(folder), **_figures(one)}
            for folder, one in zip(self.folders, self.facts, strict=True)
        ]
        return {
            "runs": runs,
            "settings_that_differ": {key: list(values) for key, values in self.settings.items()},
            "remarks": list(self.remarks),
        }


def compare(runs: Sequence[tuple[Path, Facts]]) -> Compared:
    """Put runs side by side; they may be finished, stopped or at work."""
    if len(runs) < 2:
        raise UsageError(
            f"A comparison needs two runs, and {len(runs)} is named. 'skillopt runs FOLDER' lists what is"
            " there."
        )
    facts = tuple(one for _, one in runs)
    return Compared(
        folders=tuple(folder for folder, _ in runs),
        facts=facts,
        settings=_differing(facts),
        remarks=tuple(_remarks(facts, [task_digests(folder / DATABASE) for folder, _ in runs])),
    )


def short_names(folders: Sequence[Path]) -> list[str]:
    """As much of the end of each path as tells them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for depth in range(1, max(map(len, parts))):
        names = ["/".join(one[-depth:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def tested(facts: Facts) -> str:
    """What seed and best are compared on; before its end a cross-fitted run has no test tasks."""
    if facts.test.folds:
        return f"{facts.test.folds} folds"
    return "sealed test" if facts.counts.get("test") else "test"


def score_table(facts: Facts) -> list[tuple[str, str, str]]:
    """Heads and rows: seed against best, on val and on the test, and what that proves."""
    compared = facts.test.comparison
    val = [score(facts.baseline), score(facts.best), change(facts.baseline, facts.best)]
    if compared is None:
        test = [NOT_MEASURED, NOT_MEASURED, ""]
        heads, proven = ("", f"val ({facts.metric})", tested(facts)), ("", "", facts.significance)
        return [heads, *zip(_ROWS, val, test, strict=True), proven]
    gained = f"{compared.delta:+.3f}, {interval(compared)}"
    test = [score(compared.before), score(compared.after), gained]
    seed, best, changed = zip(_ROWS, val, test, strict=True)
    return [
        ("", f"val ({facts.metric})", f"{tested(facts)} ({facts.test.metric}, n = {compared.n})"),
        seed,
        best,
        *([("last", "", score(facts.test.final))] if facts.test.final is not None else []),
        changed,
        ("", "", f"{facts.significance}, p = {compared.p:.2g} ({compared.test})"),
        ("tasks", "", f"{len(compared.fixed)} fixed, {len(compared.broken)} broken"),
        *((name, "", _before_and_after(one.before, one.after)) for name, one in facts.test.targets.items()),
        *(
            (name, "", _before_and_after(*(getattr(facts.test.triggering[arm], name) for arm in _ROWS[:2])))
            for name in ("recall", "precision")
            if facts.test.triggering
        ),
    ]


def _before_and_after(before: float | None, after: float | None) -> str:
    return f"{score(before)} to {score(after)}"


def _figures(facts: Facts) -> dict[str, Any]:
    found = facts.test.comparison
    outcomes = Counter(outcome(change.action) for change in facts.steps)
    accepted = outcomes["accepted"] + outcomes["taken without a gate"]
    spent, skill = facts.spent, None
    test: dict[str, Any] | None = None
    if found is not None:
        test = {"seed": found.before, "best": found.after, "delta": found.delta}
        test |= {"interval": list(found.interval), "level": found.level, "p": found.p, "n": found.n}
    if facts.baseline is not None:
        skill = {"seed": len(facts.seed_skill), "best": len(facts.best_skill)}
    return {
        "status": facts.status,
        "simulated": facts.simulated,
        "benchmark": facts.benchmark,
        "target": facts.target,
        "optimizer": facts.optimizer,
        "steps": len(facts.steps),
        "planned": facts.planned,
        "policy": _policy(facts),
        "metric": facts.metric,
        "val": {"seed": facts.baseline, "best": facts.best},
        "test": test,
        "significance": facts.significance,
        "looks": facts.looks,
        "accepted": accepted,
        "rejected": outcomes["rejected"],
        "others": len(facts.steps) - accepted - outcomes["rejected"],
        "calls": spent.calls,
        "tokens": spent.tokens,
        "usd": spent.dollars,
        "skill_characters": skill,
        "claim": facts.claim or None,
    }


def in_words(facts: Facts) -> dict[str, str]:
    """The figures of one run as a column of the comparison."""
    figures = _figures(facts)
    test, skill, found = figures["test"], figures["skill_characters"], facts.test.comparison
    gained = change(facts.baseline, facts.best)
    return {
        "status": figures["status"] + (", simulated" if facts.simulated else ""),
        "steps": f"{figures['steps']} of {figures['planned']}",
        "gate": f"{figures['policy']}, {figures['metric']}",
        "val seed": score(facts.baseline),
        "val best": score(facts.best) + (f" ({gained})" if gained else ""),
        "test seed": score(test["seed"] if test else None),
        "test best": score(test["best"] if test else None) + (f" ({test['delta']:+.3f})" if test else ""),
        "change": "" if found is None else f"{interval(found)}, n = {found.n}",
        PROVEN: facts.significance,
        "looks at test": str(figures["looks"]),
        "accepted, rejected": f"{figures['accepted']}, {figures['rejected']}",
        "best skill": f"{skill['best']:,} characters (seed {skill['seed']:,})" if skill else NOT_MEASURED,
        "spent": f"{figures['calls']:,} calls, {figures['tokens']:,} tokens",
        "cost": money(figures["usd"]),
    }


def _policy(facts: Facts) -> str:
    """The gate's policy, as the configuration names it; off where there is no gate."""
    settings = dict(facts.config)
    return "off" if settings.get("evaluation.use_gate") == "false" else settings.get("gate.policy", UNKNOWN)


def _differing(facts: Sequence[Facts]) -> dict[str, tuple[str | None, ...]]:
    settings = [dict(one.config) for one in facts]
    keys = dict.fromkeys(key for one in settings for key in one)
    values = {key: tuple(one.get(key) for one in settings) for key in keys if key not in _OWN}
    return {key: found for key, found in values.items() if len({_place(key, one) for one in found}) > 1}


def _place(key: str, value: str | None) -> str | None:
    """A path as it leads from here: a run that took its settings from another has whole ones."""
    return str(Path(value).absolute()) if value is not None and key.endswith("path") else value


def _remarks(facts: Sequence[Facts], tasks: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What keeps figures that stand side by side from being compared."""
    for split in ("val", "test"):
        if len({one.get(split) for one in tasks}) > 1:
            yield (
                f"The {split} tasks are not the same in all of these runs: their {split} scores cannot be"
                " compared."
            )
    if len({one.metric for one in facts}) > 1:
        yield f"The scores are not of one metric: {', '.join(one.metric for one in facts)}."
    if sum(one.test.comparison is not None for one in facts) > 1:
        yield "A run chosen by its test score needs a new test: the best of several looks better than it is."
    if any(not one.config for one in facts):
        yield "A run without settings.json is among these: settings it does not tell are shown as -."
