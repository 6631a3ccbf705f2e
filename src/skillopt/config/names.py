"""The public names of configuration: flat names of keys, second names of keys and values, environment
variables, and what asks for nothing here. What belongs to one provider or program is declared by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from skillopt.config.fields import section_of
from skillopt.config.schema import Config
from skillopt.config.services import declared

_SECTIONS = ("model", "train", "gradient", "optimizer", "evaluation", "env")
_RENAMED = {
    "model.optimizer": "optimizer_model",
    "model.target": "target_model",
    "env.name": "env",
    "optimizer.learning_rate": "edit_budget",
    "optimizer.min_learning_rate": "min_edit_budget",
}
"""Keys whose flat name is not their last part."""
OF_BENCHMARKS = ("split_mode", "split_ratio", "split_seed", "split_dir", "data_path", "limit")

FLAT: Mapping[str, str] = {
    **{
        _RENAMED.get(f"{section}.{name}", name): f"{section}.{name}"
        for section in _SECTIONS
        for name, field in cast(Any, Config.model_fields[section].annotation).model_fields.items()
        if not field.exclude and (section == "model" or section_of(field.annotation) is None)
    },
    "model_backend": "model.backend",
    "max_completion_tokens": "env.max_completion_tokens",
    **{name: f"env.{name}" for name in OF_BENCHMARKS},
    "triggers": "triggers.path",
    "budget": "budget",
}
"""Flag and legacy flat name to dotted key. The keys of a provider have the flat name of their last part. A
name that is nowhere is tried as a key of the benchmark (`env.<name>`).
"""

SHORT: Mapping[str, str] = {
    "task": "env.name",
    "seed_skill": "env.skill_init",
    "epochs": "train.num_epochs",
    "learning_rate": "optimizer.learning_rate",
    "lr_min": "optimizer.min_learning_rate",
    "n_workers": "env.workers",
}
"""What the short flat form of a file (`python -m skillopt.run`) says differently."""

SECOND: Mapping[str, str] = {"env.max_completion_tokens": "model.target.max_tokens"}
"""Second names of keys, beside those that providers and programs declare."""

DEAD: Mapping[str, tuple[str, tuple[Any, ...] | None]] = {
    "train.steps_per_epoch": ("it follows from the train split and the batch size", ()),
    "gradient.max_analyst_rounds": ("every minibatch is read once", ()),
    "optimizer.meta_learning_rate": ("the meta skill has no limit of its own", ()),
    "model.codex_exec_full_auto": ("use the sandbox settings of the agent", ()),
    "model.codex_trace_to_optimizer": ("analysts always read what the agent did", (True,)),
    "evaluation.semantic_density_weight": ("there is no density bonus", None),
    "evaluation.leading_words": ("there is no density bonus", None),
    "env.split_output_dir": ("splits follow from the data and the seed, and are not written", ()),
    "env.judge_model": ("nothing reads it", ()),
    "env.judge_max_completion_tokens": ("nothing reads it", ()),
    "env.judge_retries": ("nothing reads it", ()),
    "env.max_api_workers": ("rollouts in flight are env.workers", (8,)),
    "env.max_queries_per_turn": ("documents are searched with tools", (4,)),
}
"""Public keys without an effect, why, and the values that ask for nothing (None: any) and load silently."""

DEAD_PREFIXES: Mapping[str, str] = {"officeqa": "env.search_"}
"""Public keys of one benchmark that ask for nothing: an offline search never asks a search service."""

REFUSED: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "evaluation.use_semantic_density": (
        (
            "a bonus for words such as 'must' and 'never' rewards a skill for shouting, whether or not it"
            " solves more tasks; leave it out"
        ),
        (False,),
    ),
    "env.max_turns": ("the target is asked once here; leave it out", (1,)),
}
"""Public keys that are not followed, why, and the values that ask for nothing; a benchmark's come first."""

ROLE_VARIABLES: Mapping[str, str] = {
    "OPTIMIZER_DEPLOYMENT": "model.optimizer.name",
    "TARGET_DEPLOYMENT": "model.target.name",
    "OPTIMIZER_BACKEND": "model.optimizer_backend",
    "TARGET_BACKEND": "model.target_backend",
    "REFLACT_MODEL_BACKEND": "model.backend",
}
"""Environment variables of the roles, beside those of providers and programs."""

DEAD_VARIABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "EXEC_EMPTY_RESPONSE_RETRIES": (
        "an agent's empty answer is its own failure and scores 0; it is not asked again",
        ("0",),
    ),
    "CLAUDE_PERMISSION_MODE": (
        "nobody is asked: a chat has no tools, and a rollout those that work inside its own workspace",
        ("dontAsk",),
    ),
    "CLAUDE_SETTING_SOURCES": (
        "settings of yours are never read, so that they are no part of a measurement",
        (),
    ),
    "CLAUDE_ALLOW_ATTACHMENT_READ": ("the images of a task are always shown", ("1", "true")),
    "CODEX_WORKING_DIRECTORY": ("every rollout has a fresh workspace of its own", ()),
    "CODEX_EXEC_FULL_AUTO": ("use the sandbox settings of the agent", ("0", "false")),
    "OFFICEQA_SEARCH_API_URL": ("documents are searched where they lie, by no service", ()),
    "OFFICEQA_CUSTOM_SEARCH_AUTH": ("documents are searched where they lie, by no service", ()),
    "ALFWORLD_WORKER_START_METHOD": ("games run in worker programs of their own", ()),
}
"""Public variables without an effect, why, and the values that ask for what happens anyway."""

MODES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "optimizer.lr_control_mode": {
        "fixed": ("manual", "scheduler", "scheduled"),
        "autonomous": ("auto", "optimizer"),
        "none": ("off", "no_lr"),
    },
    "optimizer.skill_update_mode": {
        "patch": (),
        "rewrite_from_suggestions": ("rewrite", "suggestions", "rewrite_suggestions"),
        "full_rewrite_minibatch": ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
    },
    "optimizer.longitudinal_pair_policy": {
        "mixed": ("default", "random", "all"),
        "changed": ("change", "delta", "10_01", "01_10"),
        "unchanged": ("stable", "same", "00_11"),
    },
}
"""Key to its values, each with its second names; a provider declares those of its options."""
_NOT_SENT = ("none", "off")


def dotted(name: str) -> str:
    """The dotted key of a flag or legacy flat name."""
    if "." in name:
        return name
    return FLAT.get(name) or _flat_rest().get(name) or f"env.{name}"


def flat_names() -> Mapping[str, str]:
    """Every flat name that is no benchmark's alone, and its key."""
    return {**_flat_rest(), **FLAT}


def flat_name(key: str) -> str | None:
    """The flat name that the pages show for a key."""
    if key in declared().keys:
        return key.removeprefix("model.")
    role = key.removesuffix(".name")
    return next((name for name, each in FLAT.items() if each in (key, role)), None)


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their public flat names; a role is the name of its model."""

    def at(key: str) -> Any:
        value: Any = settings
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if key in ("model.optimizer", "model.target") else value

    env: Mapping[str, Any] = settings.get("env", {})
    found = {**{name: value for name, value in env.items() if name != "name"}}
    found |= {name: at(key) for name, key in FLAT.items()}
    return {name: value for name, value in found.items() if value is not None and not isinstance(value, dict)}


def aliases() -> Mapping[str, str]:
    """Second names of keys: to every rule they are the key itself."""
    return {**declared().aliases, **SECOND}


def variables() -> Mapping[str, str]:
    """Environment variable to the key it sets."""
    return {**ROLE_VARIABLES, **declared().variables}


def _flat_rest() -> Mapping[str, str]:
    keys = (*declared().keys, *DEAD, *REFUSED, *declared().aliases)
    return {
        **SHORT,
        **{key.rpartition(".")[2]: key for key in keys},
        "meta_edit_budget": "optimizer.meta_learning_rate",
    }


def canonical(key: str, value: Any) -> Any:
    """The value under its one name; what is no second name stays, and is judged by the key's type."""
    if key.endswith("temperature"):
        return None if _word(value) in _NOT_SENT else value
    return _names(key).get(_word(value), value)


def known_words(key: str) -> list[str]:
    """Every spelling a key knows, for the near miss."""
    return list(_names(key))


def _names(key: str) -> dict[str, str]:
    fills = declared().keys[key].fills if key in declared().keys else ".".join(key.split(".")[2:])
    option = fills.removeprefix("options.") if fills.startswith("options.") else ""
    modes = MODES.get(key) or declared().synonyms.get(option, {})
    return {word: name for name, others in modes.items() for word in (name, *others)}


def _word(value: Any) -> str:
    if value is False:
        return "off"  # YAML reads an unquoted `off` as false
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
