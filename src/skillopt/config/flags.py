"""Decides which command line flags there are: one for every public flat name, typed by the key it sets."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from skillopt.benchmarks import benchmarks
from skillopt.config.keys import ALIASES, DEAD, FLAT, REFUSED
from skillopt.config.layers import LEAVES, leaf_of, settings_leaves
from skillopt.config.provider_keys import PROVIDER_KEYS

OF_A_BENCHMARK = "A key of the benchmark."


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One command line flag: its flat name, the key it sets, and the type it has there."""

    name: str
    key: str
    type: str
    choices: tuple[str, ...]
    description: str
    hidden: bool = False
    """Accepted for the sake of old command lines, and not offered."""


def flags(benchmark: str | None = None) -> list[Flag]:
    """The public flags, typed by the schema; with a benchmark, also one for each of its own keys."""
    settings = benchmarks.get(benchmark).Settings if benchmark is not None else None
    names = dict(FLAT) | {key.removeprefix("model."): key for key in PROVIDER_KEYS}
    names |= {
        leaf.key.removeprefix("env."): leaf.key for leaf in (settings_leaves(settings) if settings else ())
    }
    offered = [_flag(name, key, settings) for name, key in names.items()]
    silent = {key.rpartition(".")[2]: key for key in (*DEAD, *REFUSED, *ALIASES)} | {
        "meta_edit_budget": "optimizer.meta_learning_rate"
    }
    return offered + [_silent(name, key) for name, key in silent.items() if name not in names]


def _flag(name: str, key: str, settings: type[BaseModel] | None) -> Flag:
    texts = {
        "budget": (
            "What the run may spend: '$2', '200k tokens', '500 calls', '30 minutes', or several with commas."
        ),
        "env.max_completion_tokens": LEAVES["model.target.max_tokens"].description,
    }
    leaf = leaf_of(
        f"{key}.name" if key in ("model.optimizer", "model.target", "model.judge") else key, settings
    )
    if leaf is None:
        kind = "int" if key == "env.max_completion_tokens" else "text"
        return Flag(name=name, key=key, type=kind, choices=(), description=texts.get(key, OF_A_BENCHMARK))
    return Flag(
        name=name,
        key=key,
        type=leaf.type_words,
        choices=tuple(map(str, leaf.choices)),
        description=leaf.description,
    )


def _silent(name: str, key: str) -> Flag:
    if key in ALIASES:
        text = f"The same as --{ALIASES[key].rpartition('.')[2]}."
    else:
        text = "Has no effect." if key in DEAD else "Is refused unless it asks for nothing."
    return Flag(name=name, key=key, type="text", choices=(), description=text, hidden=True)
