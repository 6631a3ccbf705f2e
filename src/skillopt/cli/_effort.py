"""Presets of how much a run takes: a word for several settings, each of which can still be said by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, TypeAlias

from skillopt.cli._flags import Given
from skillopt.cli._options import option
from skillopt.errors import UnknownName

PRESETS: Mapping[str, Mapping[str, str]] = {
    "quick": {
        "train.num_epochs": "1",
        "train.folds": "1",
        "train.proof.depth": "2",
        "train.proof.control": "10",
        "evaluation.repeats": "1",
    },
    "standard": {},
    "thorough": {
        "train.num_epochs": "6",
        "train.proof.rows": "3",
        "evaluation.repeats": "3",
        "gate.policy": "confirm",
        "optimizer.prune": "true",
    },
}
"""Settings by effort; `docs/effort.md` says why each."""
Effort: TypeAlias = Annotated[
    str | None,
    option("--effort", "quick, standard or thorough: several settings in a word.", "|".join(PRESETS)),
]


def with_effort(given: Given, effort: str | None) -> Given:
    """The same with the settings of a preset, where they are not said by option; flags count more anyway."""
    if effort is None:
        return given
    if effort not in PRESETS:
        raise UnknownName("effort", effort, PRESETS)
    said = {one.partition("=")[0].strip() for one in given.options}
    preset = [f"{key}={value}" for key, value in PRESETS[effort].items() if key not in said]
    return replace(given, options=[*preset, *given.options])
