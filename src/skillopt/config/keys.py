"""Decides the public names of configuration keys: flat names, second names, environment variables, and keys
that ask for nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.config.provider_keys import PROVIDER_KEYS, PROVIDER_VARIABLES

FLAT: Mapping[str, str] = {
    "optimizer_model": "model.optimizer",
    "target_model": "model.target",
    "judge": "model.judge",
    "backend": "model.backend",
    "model_backend": "model.backend",
    "optimizer_backend": "model.optimizer_backend",
    "target_backend": "model.target_backend",
    "reasoning_effort": "model.reasoning_effort",
    "rewrite_reasoning_effort": "model.rewrite_reasoning_effort",
    "rewrite_max_completion_tokens": "model.rewrite_max_completion_tokens",
    "num_epochs": "train.num_epochs",
    "train_size": "train.train_size",
    "batch_size": "train.batch_size",
    "accumulation": "train.accumulation",
    "seed": "train.seed",
    "patience": "train.patience",
    "minibatch_size": "gradient.minibatch_size",
    "merge_batch_size": "gradient.merge_batch_size",
    "analyst_workers": "gradient.analyst_workers",
    "failure_only": "gradient.failure_only",
    "edit_budget": "optimizer.learning_rate",
    "min_edit_budget": "optimizer.min_learning_rate",
    "lr_scheduler": "optimizer.lr_scheduler",
    "lr_control_mode": "optimizer.lr_control_mode",
    "skill_update_mode": "optimizer.skill_update_mode",
    "use_slow_update": "optimizer.use_slow_update",
    "slow_update_samples": "optimizer.slow_update_samples",
    "slow_update_gate_with_selection": "optimizer.slow_update_gate_with_selection",
    "longitudinal_pair_policy": "optimizer.longitudinal_pair_policy",
    "use_meta_skill": "optimizer.use_meta_skill",
    "use_skill_aware_reflection": "optimizer.use_skill_aware_reflection",
    "skill_aware_appendix_source": "optimizer.skill_aware_appendix_source",
    "skill_aware_consolidate_threshold": "optimizer.skill_aware_consolidate_threshold",
    "salvage": "optimizer.salvage",
    "use_gate": "evaluation.use_gate",
    "gate_metric": "evaluation.gate_metric",
    "gate_mixed_weight": "evaluation.gate_mixed_weight",
    "sel_env_num": "evaluation.sel_env_num",
    "test_env_num": "evaluation.test_env_num",
    "eval_test": "evaluation.eval_test",
    "repeats": "evaluation.repeats",
    "env": "env.name",
    "skill_init": "env.skill_init",
    "out_root": "env.out_root",
    "workers": "env.workers",
    "exec_timeout": "env.exec_timeout",
    "max_completion_tokens": "env.max_completion_tokens",
    "split_mode": "env.split_mode",
    "split_ratio": "env.split_ratio",
    "split_seed": "env.split_seed",
    "split_dir": "env.split_dir",
    "data_path": "env.data_path",
    "limit": "env.limit",
    "budget": "budget",
}
"""Flag and legacy flat name to dotted key. The keys of a provider (`provider_keys.py`) have the flat name of
their last part. A name that is nowhere is tried as a key of the benchmark (`env.<name>`).
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

ALIASES: Mapping[str, str] = {
    "model.azure_endpoint": "model.azure_openai_endpoint",
    "model.azure_api_version": "model.azure_openai_api_version",
    "model.azure_api_key": "model.azure_openai_api_key",
    **dict.fromkeys(("model.codex_path", "model.codex_cli_bin", "model.codex_bin"), "model.codex_exec_path"),
    **dict.fromkeys(("model.sandbox", "model.codex_sandbox"), "model.codex_exec_sandbox"),
    "env.max_completion_tokens": "model.target.max_tokens",
}
"""Second names of a key: the same key to every rule, so two different values in one layer are an error."""

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
"""Public keys without an effect, why, and the values that ask for nothing (None: any); those and a blank load
silently, others with a warning.
"""

DEAD_PREFIXES: Mapping[str, str] = {"officeqa": "env.search_"}
"""Public keys of one benchmark that ask for nothing: settings of a search service, which an offline search
never asks.
"""

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
"""Public keys that are not followed, why, and the values that ask for nothing. A benchmark that has such an
`env` key comes first.
"""

ROLE_VARIABLES: Mapping[str, str] = {
    "OPTIMIZER_DEPLOYMENT": "model.optimizer.name",
    "TARGET_DEPLOYMENT": "model.target.name",
    "OPTIMIZER_BACKEND": "model.optimizer_backend",
    "TARGET_BACKEND": "model.target_backend",
    "REFLACT_MODEL_BACKEND": "model.backend",
}
VARIABLES: Mapping[str, str] = {**ROLE_VARIABLES, **PROVIDER_VARIABLES}
"""Environment variable to the key it sets."""

_FLAT_REST: Mapping[str, str] = {
    **SHORT,
    **{
        key.rpartition(".")[2]: key for key in (*PROVIDER_KEYS, *DEAD, *REFUSED) if not key.startswith("env.")
    },
    **{key.rpartition(".")[2]: key for key in ALIASES if key.startswith("model.")},
    "meta_edit_budget": "optimizer.meta_learning_rate",
}


def dotted(name: str) -> str:
    """The dotted key of a flag or legacy flat name."""
    if "." in name:
        return name
    return FLAT.get(name) or _FLAT_REST.get(name) or f"env.{name}"
